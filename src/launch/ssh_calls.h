#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "owned_fd.h"
#include "program_files.h"
#include "roster_host.h"

namespace hgt {

/// Calls the hosts of a job by ssh, at most kMaxSshCalls at a time. Must outlive the loop.
class SshCalls {
 public:
  struct Events {
    std::function<void(RosterHost& host, OwnedFd in, OwnedFd out)> answered;
    std::function<void(RosterHost& host, const std::string& why)> failed;
    std::function<void(const std::string& text)> notice;
  };

  /// `program`: the path of hgtrain, which runs as the agent on the hosts. `hosts` must outlive
  /// this and keep its size. The events are called within the loop.
  SshCalls(asio::io_context& io, std::vector<RosterHost>& hosts, const std::string& program,
           Events events);

  /// Calls those in State::kCalled that have not been called, except this machine. Call it again
  /// when a host has answered or failed.
  void call_next();

 private:
  void call(RosterHost& host);

  asio::io_context& io_;
  std::vector<RosterHost>& hosts_;
  const ProgramFiles program_;
  const Events events_;
};

}  // namespace hgt
