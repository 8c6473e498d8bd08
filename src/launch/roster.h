#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/error_list.h"
#include "hgtrain/launch/hosts.h"
#include "hgtrain/launch/preflight.h"
#include "hgtrain/launch/rendezvous.h"

#include "agent.h"
#include "agent_link.h"
#include "file_sender.h"
#include "joining_nodes.h"
#include "output_sink.h"
#include "placement.h"
#include "rank_assignment.h"
#include "roster_host.h"
#include "ssh_calls.h"
#include "world.h"

namespace hgt {

/// The hosts of a job, for all its attempts: connects to each, or waits until it dials, has a link
/// to its agent, and decides which hosts run the ranks of the next attempt. Must outlive the loop.
class Roster {
 public:
  struct Events {
    std::function<void()> ready;  ///< there are hosts for the next attempt
    std::function<void(const Error& why)>
        unusable;  ///< instead of `ready`: names all hosts that cannot be used
    std::function<void(AgentLink&, const Frame& frame)> frame;  ///< after `ready`
    /// After `ready`: a host that runs ranks is lost.
    std::function<void(AgentLink&, const std::string& why)> lost;
    /// After `ready`: a host has answered that was lost or could not be used before.
    std::function<void(const std::string& host)> returned;
    std::function<void(const std::string& text)> notice;
    /// An agent received a signal, at any time.
    std::function<void(const std::string& host, int signal)> signal;
  };

  /// `lease`: how long another machine may be silent.
  Roster(asio::io_context& io, OutputSink& console, std::chrono::milliseconds lease, Events events);

  /// Sets what the hosts of a job on several hosts are asked before the first attempt, and whether
  /// the workers are hgtrain's own, and on CPUs (check_hosts()). Call it first.
  void inspect(Inspect wanted, bool own_workers, bool own_cpu_workers);
  /// Sets the files that each host must have before it runs ranks. Relative paths are below
  /// `folder` or, if that is "", below the agent's working folder. Hosts on this machine have them
  /// already. Error(kData) if a file cannot be read.
  void push(const PushedFiles& files, const std::string& folder, const std::string& mark);
  /// Sets how many hosts and ranks the job can have. With `patience` 0, it does not wait for lost
  /// hosts. Otherwise they are called again each `call_period`, or may dial again, and `gather`
  /// waits as long as `patience` for hosts without which the job cannot continue. A host that
  /// answers a call, but lacks what ranks need there, counts as one that cannot be used; if that is
  /// found before the first attempt and it is no spare, `unusable` is called at once.
  void limit(WorldLimits limits, std::chrono::milliseconds patience,
             std::chrono::milliseconds call_period);
  /// Adds this machine, with an agent on the same loop. It is ready at once.
  void add_this_machine(const Agent::Context& context, int num_ranks);
  /// Adds other machines, on each of which ssh starts the file `program` as an agent. Only a few
  /// are called at a time, because sshd and identity services refuse many logins at once. With
  /// `here`, the first host that is no spare is this machine, and its agent is on the same loop.
  void call(const std::vector<JobHost>& hosts, const std::string& program,
            const std::optional<Agent::Context>& here);
  /// Adds this machine, and others that dial it. A node that comes when an attempt runs can be a
  /// host of the next one, if the job waits for lost hosts. Error(kDevice) if it cannot listen.
  void meet(const std::vector<JobHost>& hosts, const Rendezvous& rendezvous,
            const Agent::Context& context);
  /// Prepares another attempt. Once no process of the job can be left on lost hosts, spare hosts
  /// take their ranks. Without a spare, the lost host is called again, or may dial again; if it
  /// cannot be used, its ranks are left out, within the limits. Then `ready` or `unusable` is
  /// called again, at once if no host was lost.
  void gather();
  /// The host, none of whose ranks is left, runs none of later attempts, and is not called again.
  void leave_out(const std::string& host, const std::string& why);
  /// The host could not start its ranks. If ssh reaches it, it is called again, and gather() does
  /// not wait longer than the one before it; a node that has dialled is left out. False, and
  /// nothing is done, if it is node 0, without which there is no job.
  bool set_aside(const std::string& host, const std::string& why);
  /// The hosts of this attempt were able to start their ranks.
  void forget_set_aside();
  /// There is no next attempt: lost hosts are not called again, and those that cannot be used any
  /// more are not named.
  void begin_stop() { is_stopping_ = true; }
  /// Tells the nodes that have dialled, or dial again, how the job has ended, and calls `done` once
  /// all have acknowledged it, or after kDismissLimit. The nodes end when this process ends, which
  /// may print its report before.
  void dismiss(int exit_code, std::function<void()> done);
  static constexpr std::chrono::seconds kDismissLimit{5};

  /// Whether another attempt would have more ranks than this one, because hosts are back.
  bool can_grow() const { return ranks_.can_grow(); }

  /// The hosts that run the next attempt, once it is ready.
  std::vector<HostRanks> hosts() const;
  int num_ranks() const;
  /// The hosts of the ranks, without those that have answered.
  std::vector<std::string> awaited_hosts() const;
  /// Of this process.
  std::set<pid_t> ssh_processes() const;
  /// The address at which the other hosts reach the first one; "" = that of its interface, which
  /// its agent knows. Error(kConfig) if they cannot reach it.
  std::string master_address() const;

 private:
  using Host = RosterHost;

  void set_hosts(const std::vector<JobHost>& hosts);
  void start_local_agent(Host& host, const Agent::Context& context);
  void call_next();
  void call_again(Host& host);
  void disconnect(Host& host);
  void assign_spares();
  void connect(Host& host, OwnedFd in, OwnedFd out);
  void on_frame(Host& host, const Frame& frame);
  void limit_answer(Host& host);
  void on_hello(Host& host, const AgentHello& hello);
  void on_files(Host& host, const Frame& frame);
  void on_facts(Host& host, const HostFacts& facts);
  void on_lost(Host& host, const std::string& why);
  void on_unusable(Host& host, const std::string& why);
  std::string why_lacking(const Host& host) const;
  void put_aside(Host& host, const std::string& lacks);
  void keep_out(Host& host);
  bool lets_join(Host& host);
  bool is_clear(const Host& host) const;
  bool is_node_0(const Host& host) const;
  bool is_of_launcher(const Host& host) const;
  bool could_run() const;
  void check_ready();
  void begin();
  bool have_files();
  std::optional<Error> why_unfit();
  void wait_for_hosts();
  void call_away();
  void look_for_returns();
  void name_away();
  void report_away();

  asio::io_context& io_;
  OutputSink& console_;
  const std::chrono::milliseconds lease_;
  const Events events_;
  std::unique_ptr<Agent> agent_;     // of this machine
  std::unique_ptr<SshCalls> calls_;  // null unless ssh reaches the hosts, which refer to it
  std::vector<Host> hosts_;
  RankAssignment ranks_{hosts_};
  Inspect inspection_;
  bool own_workers_ = false, own_cpu_workers_ = false;
  std::optional<FileSender> files_;
  std::set<std::string> reported_;  // findings about hosts that were reported
  std::chrono::nanoseconds patience_{0};
  std::chrono::nanoseconds call_period_{0};
  std::int64_t deadline_ns_ = 0;  // until when to wait for hosts
  enum class Phase {
    kGathering,  // until there are hosts for the next attempt
    kFenced,     // the same, but no host is called: processes of the last attempt may be left
    kReady       // an attempt runs
  } phase_ = Phase::kGathering;
  bool has_begun_ = false;        // there was an attempt
  bool could_not_start_ = false;  // the last one
  bool is_waiting_told_ = false;  // the user knows for whom it waits
  bool runs_on_fewer_ = false;    // hosts than the job has ranges
  bool is_stopping_ = false;
  asio::steady_timer timer_;
  asio::steady_timer return_timer_;
  std::unique_ptr<JoiningNodes> nodes_;  // null unless the hosts dial
};

}  // namespace hgt
