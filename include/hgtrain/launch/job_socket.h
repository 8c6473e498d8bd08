#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The socket control.sock in the folder of a run, by which other commands reach its launcher
/// (JobClient). Only this user and root may connect. Only the destructor blocks. The memory for a
/// client is bounded, whether it reads its answers or not.
///
/// To be used on one thread only.
class JobSocket {
 public:
  static constexpr int kMaxClients = 64;
  /// At most about this much of what the console shows waits for a client; it misses the rest.
  static constexpr std::size_t kMaxWaitingBytes = 1 << 20;

  /// What the launcher does for the clients.
  struct Answers {
    std::function<nlohmann::json()> status;  ///< an object
    std::function<void(bool now)> stop;      ///< must return at once
  };

  /// Replaces a socket that a killed launcher has left. If the socket cannot be made, problem()
  /// says why, and no client is served.
  explicit JobSocket(const std::string& folder);
  /// Closes all connections and removes the socket. Waits while clients still read what the console
  /// has shown, but at most 1 s.
  ~JobSocket();
  JobSocket(const JobSocket&) = delete;
  JobSocket& operator=(const JobSocket&) = delete;

  const std::string& problem() const { return problem_; }  ///< "" = there is none
  /// A descriptor that is readable whenever serve() has something to do; -1 = never.
  int fd() const;
  /// Takes connections and requests, and sends what clients can take.
  void serve(const Answers& answers);
  /// Sends what the console shows to the clients that watch it; `is_error`: on stderr, not stdout.
  void show(bool is_error, std::string_view text);

 private:
  class Server;
  std::unique_ptr<Server> server_;  // none if there is a problem
  std::string problem_;
};

}  // namespace hgt
