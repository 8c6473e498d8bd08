#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/launch/rendezvous.h"

#include "join_listener.h"
#include "owned_fd.h"
#include "roster_host.h"

namespace hgt {

/// Why a node that dials cannot be one of `hosts`, of which the first is node 0; "" if it can.
std::string why_refused(const Newcomer& newcomer, const std::vector<RosterHost>& hosts);

/// The nodes that dial node 0: lets those of `hosts` in that the job waits for, and tells them in
/// the end how the job has ended. Must outlive the loop.
class JoiningNodes {
 public:
  struct Events {
    /// What is known of the node is in its host already.
    std::function<void(RosterHost& host, OwnedFd in, OwnedFd out)> joined;
    std::function<void(RosterHost& host, const std::string& why)> missing;  ///< it is too late
    std::function<void(const std::string& text)> notice;
  };

  /// Listens from now on. Error(kDevice) if it cannot. `hosts` keeps its size.
  JoiningNodes(asio::io_context& io, std::vector<RosterHost>& hosts, const Rendezvous& rendezvous,
               Events events);

  /// From now on, the hosts that have not answered have join_timeout to do so.
  void await();
  void stop_waiting() { timer_.cancel(); }

  /// Tells those that have dialled how the job has ended, and then calls `done`: when they know, or
  /// after `limit`. They end with this process, which may report before that.
  void dismiss(int exit_code, std::chrono::seconds limit, std::function<void()> done);
  bool is_dismissing() const { return dismissed_ != nullptr; }
  /// To be called when a host has heard of the end, or is away.
  void check_dismissed();

 private:
  void on_join(const Newcomer& newcomer);

  std::vector<RosterHost>& hosts_;
  const Events events_;
  const std::chrono::seconds join_timeout_;
  asio::steady_timer timer_;
  std::function<void()> dismissed_;
  JoinListener listener_;
};

}  // namespace hgt
