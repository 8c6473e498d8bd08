#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/launch/hosts.h"

#include "program_files.h"

namespace hgt {

/// Calls at the same time. Above 10, sshd's default MaxStartups drops some.
inline constexpr std::ptrdiff_t kMaxSshCalls = 8;

/// How long ssh waits for a connection to each address of a host, and for the greeting of the
/// server there: a host that is down is soon reported, and a slow server or jump host can be called
/// again with the longer limit.
inline constexpr std::chrono::seconds kConnectLimit{4}, kLongConnectLimit{10};

/// The agent of another host, or a RemoteCommand there, started by ssh: ssh's stdin and stdout are
/// the stream to it, so nothing has to listen, and ssh does login and encryption. The user's
/// ssh_config, keys, agent and jump hosts work. What the remote shell prints before the agent
/// starts is discarded. Nothing of the stream is sent before, so that a start-up file which reads
/// stdin gets none of it, but only an empty line a second if it makes the host late.
///
/// ssh runs in a session of its own: Ctrl-C does not reach it. It is killed when this is destroyed,
/// and with it what it has started, such as a ProxyCommand.
/// `program` and this must outlive the loop.
class SshHost {
 public:
  /// Only a command may use the keys of this machine there, if ssh_config says so (ForwardAgent).
  enum class Purpose { kAgent, kCommand };

  struct Events {
    /// The host has neither this build nor a copy of it in its cache, and gets one.
    std::function<void(std::size_t bytes)> sending;
    /// The agent has started; `in` is its stdout, `out` its stdin.
    std::function<void(OwnedFd in, OwnedFd out)> ready;
    /// The agent has not started. `why` is what ssh or the host said.
    std::function<void(const std::string& why)> failed;
  };

  /// Starts ssh with `program.program()` of that host, or with a copy that the host gets, if it has
  /// no such build (start_script). Error(kDevice) if there is no ssh.
  SshHost(asio::io_context& io, const JobHost& host, const ProgramFiles& program, Events events,
          Purpose purpose = Purpose::kAgent, std::chrono::seconds connect_limit = kConnectLimit);
  ~SshHost();
  SshHost(const SshHost&) = delete;
  SshHost& operator=(const SshHost&) = delete;

  pid_t pid() const { return pid_; }
  /// Ends ssh, and with it the stream, also if the connection hangs.
  void kill() const;
  /// Nothing happens any more. The loop may still refer to this, but only in what is queued there.
  void close();
  /// why_ssh_ended() for what ssh has written to stderr so far.
  std::string last_words();
  /// Its stderr, which then is the caller's to read.
  OwnedFd take_errors() { return OwnedFd(errors_.release()); }
  /// Waits until ssh ends by itself, and returns its exit code; 128 + N if signal N killed it.
  int wait();
  /// After the end of the stream, if it says more than that: who killed ssh, or how the agent has
  /// ended. This may wait for 0.1 s.
  std::string how_ended() const;

 private:
  using Descriptor = asio::posix::stream_descriptor;
  void watch_output();
  void read_output();
  void watch_errors();
  bool read_errors();
  void send_program();
  siginfo_t end() const;
  std::string why_ended();
  void fail(const std::string& why);
  void cancel_timers();
  void prompt(std::chrono::seconds after);
  void write_line(std::string_view line);
  int reap();

  const ProgramFiles& program_;
  const std::string nonce_;
  const Events events_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  pid_t pid_ = -1;
  Descriptor input_;  // ssh's stdin
  Descriptor output_;
  Descriptor errors_;
  asio::steady_timer deadline_;
  asio::steady_timer prompt_timer_;
  std::string line_;        // incomplete line of stdout
  std::string last_noise_;  // the last whole line before the nonce
  std::size_t discarded_ = 0;
  bool is_sending_ = false;  // the program
  bool is_open_ = false;     // ready or failed
  std::string error_text_;   // the end of stderr
};

/// The command line of ssh that starts this program on `host`, after a line with `nonce`.
std::vector<std::string> ssh_command(const JobHost& host, const ProgramFiles& files,
                                     const std::string& nonce,
                                     SshHost::Purpose purpose = SshHost::Purpose::kAgent,
                                     std::chrono::seconds connect_limit = kConnectLimit);
/// For the user: a host gets the program.
std::string text_of_sending(const JobHost& host, std::size_t bytes);

}  // namespace hgt
