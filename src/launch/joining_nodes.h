#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/launch/rendezvous.h"

#include "frame_link.h"
#include "join_listener.h"
#include "roster_host.h"

namespace hgt {

/// Why a node that dials belongs to another job than this one of so many nodes, of which node 0 has
/// `settings`; "" if it does not.
std::string why_of_another_job(const Newcomer& newcomer, int num_nodes,
                               const std::map<std::string, std::string>& settings);

/// Why a node that dials cannot be one of `hosts`, whose first is node 0; "" if it can.
std::string why_refused(const Join& join, const std::vector<RosterHost>& hosts);

/// The number for a node that has none: the one that it had before it was lost, silent or left out;
/// or the first that is free; or one of a silent node. kAnyNode if there is none.
int free_number(const Join& join, const std::vector<RosterHost>& hosts);

/// Whether a node that dials, for the first time at `since_ns`, may take the place of one that is
/// here: that has been silent for 2 s, or was not heard later than 2 s after `since_ns`, so it may
/// be lost. If this process stood still, it may notice the end of a node's old connection after the
/// same node has dialled anew.
bool may_replace(const Join& join, const std::vector<RosterHost>& hosts, std::int64_t since_ns);

/// What a node is called: by its host, and if another node is on that host, by its number, too: "a
/// (node 1)".
std::string node_name(const Join& join, int node, const std::vector<RosterHost>& hosts);

/// The nodes that dial node 0: accepts those of `hosts` for which the job waits, and tells them in
/// the end how the job has ended. Must outlive the loop.
class JoiningNodes {
 public:
  static constexpr std::chrono::seconds kLastCall{30};
  static constexpr std::chrono::seconds kQuiet{10};

  struct Events {
    /// Whether a node may be this host now; if it may not, it dials again.
    std::function<bool(RosterHost& host)> lets_join;
    /// A node has joined; `host` already has its data.
    std::function<void(RosterHost& host, OwnedFd in, OwnedFd out)> joined;
    std::function<void(RosterHost& host, const std::string& why)>
        missing;  ///< it has not joined in time
    std::function<void(const std::string& text)> notice;
  };

  /// Listens from now on. Error(kDevice) if it cannot. `hosts` keeps its size.
  JoiningNodes(asio::io_context& io, std::vector<RosterHost>& hosts, const Rendezvous& rendezvous,
               Events events);

  /// From now on, the hosts that have not answered have join_timeout to do so. After kQuiet, a
  /// notice names them, and the address that they dial if it is none of this machine's.
  void start_waiting();
  /// Whether the job could run on the hosts that have answered. If so, the others have kLastCall
  /// from now on, but no longer than join_timeout.
  void last_call(bool are_enough);
  void stop_waiting() { timer_.cancel(); }
  std::chrono::seconds join_timeout() const { return rendezvous_.join_timeout; }

  /// Whether this node, which is lost, dials again: it has only given this process up.
  bool dials_again(const RosterHost& host) const;
  /// Tells the nodes that have dialled, or dial again, how the job has ended, and calls `done` once
  /// all have acknowledged it, or after `limit`. The nodes end when this process ends, which may
  /// print its report before.
  void dismiss(int exit_code, std::chrono::seconds limit, std::function<void()> done);
  bool has_job_ended() const { return exit_code_.has_value(); }
  /// Call it when a host has acknowledged the end, or is lost.
  void check_dismissed();

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<std::string> called() const;
  std::string why_missing(const RosterHost& host) const;
  std::string doubt_about_address() const;
  void wait_until(Clock::time_point time);
  void report_missing();
  std::int64_t first_dialled_ns(const Join& join);
  void forget_old_dials();
  void on_join(Newcomer newcomer);
  /// It has dialled after the end of the job.
  struct LateNode {
    explicit LateNode(const Newcomer& newcomer) : newcomer(newcomer) {}
    Newcomer newcomer;
    std::optional<FrameLink> link;
    bool knows_end = false;
  };
  void tell_end(const Newcomer& newcomer, OwnedFd in, OwnedFd out);
  void on_told(LateNode& late);
  void on_other_secret(const std::string& address);
  void name_differences(const Newcomer& newcomer);

  asio::io_context& io_;
  std::vector<RosterHost>& hosts_;
  const Events events_;
  const Rendezvous rendezvous_;
  const std::shared_future<bool>
      is_elsewhere_;  // where the others dial; it may be a load balancer's address
  struct Dials {
    std::int64_t first_ns = 0, last_ns = 0;
  };
  // By Join::id: nodes that dial again and again, because they cannot join yet. Once the job has
  // ended: those that are still to be told.
  std::map<std::string, Dials> dials_;
  std::map<int, std::string> refused_;  // by number, or kAnyNode: the last that was, and why
  std::set<std::pair<int, std::string>> named_;  // how nodes differ from node 0, by number
  std::set<std::string> other_secrets_;  // addresses of strangers, or of nodes with another secret
  Clock::time_point deadline_;
  bool are_enough_ = false;
  asio::steady_timer timer_;
  std::optional<int> exit_code_;  // of the job, once it has ended
  std::function<void()> dismissed_;
  std::list<LateNode> late_;
  JoinListener listener_;
};

}  // namespace hgt
