#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "hgtrain/base/owned_fd.h"

#include "program_files.h"
#include "roster_host.h"

namespace hgt {

/// Calls the hosts of a job by ssh, at most kMaxSshCalls at a time. If an ssh server drops the
/// connection before the login, because others log in at the same time, the host is called again,
/// up to kMaxRepeats times. If no server greets within kConnectLimit, it is called again with
/// kLongConnectLimit. Must outlive the loop.
class SshCalls {
 public:
  static constexpr int kMaxRepeats = 4;

  struct Events {
    std::function<void(RosterHost& host, OwnedFd in, OwnedFd out)> answered;
    std::function<void(RosterHost& host, const std::string& why)> failed;
    std::function<void(const std::string& text)> notice;
  };

  /// `program`: the path of hgtrain, which runs as the agent on the hosts. `hosts` must outlive
  /// this and keep its size. The events are called within the loop. The pause before a repeated
  /// call is `first_pause`, and twice as long each time; it is up to half shorter or longer than
  /// that at random, so that hosts are not all called at once again.
  SshCalls(asio::io_context& io, std::vector<RosterHost>& hosts, const std::string& program,
           Events events, std::chrono::nanoseconds first_pause = std::chrono::seconds(1));

  /// Calls those in State::kCalled that have not been called, except this machine. Call it again
  /// when a host has answered or failed. Error(kDevice) if ssh cannot be started the first time;
  /// later, only that call has failed.
  void call_next();

 private:
  void call(RosterHost& host);
  void on_failed(RosterHost& host, const std::string& why);
  void call_again(RosterHost& host, std::chrono::nanoseconds pause);

  asio::io_context& io_;
  std::vector<RosterHost>& hosts_;
  const ProgramFiles program_;
  const Events events_;
  const std::chrono::nanoseconds first_pause_;
  bool has_called_ = false;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace hgt
