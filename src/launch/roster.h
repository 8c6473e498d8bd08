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
#include "roster_host.h"
#include "world.h"

namespace hgt {

/// The hosts of a job: calls each, or waits for its call, has a link to its agent, and says which
/// of them run the ranks of the next attempt. They stay for all attempts. Must outlive the loop.
class Roster {
 public:
  struct Events {
    std::function<void()> ready;                     ///< there are hosts for the next attempt
    std::function<void(const Error& why)> unusable;  ///< instead: all hosts that cannot be used
    std::function<void(AgentLink&, const Frame& frame)> frame;  ///< after `ready`
    /// After `ready`, of a host that runs ranks.
    std::function<void(AgentLink&, const std::string& why)> lost;
    /// After `ready`: a host has answered that was lost or could not be used before.
    std::function<void(const std::string& host)> returned;
    std::function<void(const std::string& text)> notice;
    std::function<void(int signal)> signal;  ///< came to an agent, at any time
  };

  /// Other machines have `lease` to say something.
  Roster(asio::io_context& io, OutputSink& console, std::chrono::milliseconds lease, Events events);

  /// What hosts of a job on several are asked before the first attempt, and whether its workers are
  /// hgtrain's own on CPUs (check_hosts()). To be called first.
  void inspect(Inspect wanted, bool own_cpu_workers);
  /// Files that each host must have before it runs ranks; from `folder` on, or where its agent
  /// works if that is "". Hosts of this machine have them. Error(kData) if one cannot be read.
  void push(const PushedFiles& files, const std::string& folder, const std::string& mark);
  /// This machine, with an agent on the same loop. Ready at once.
  void add_this_machine(const Agent::Context& context, int num_ranks);
  /// Other machines, each with an agent that ssh starts: the file `program` there. A few are called
  /// at a time: many logins at once are refused by sshd, and by users' identity services. If the
  /// job is not to wait for hosts that are lost, `patience` is 0. Otherwise they are called again
  /// every lease, and `gather` waits so long for those without which it cannot continue. With
  /// `here`, the first that is no spare is this machine, and its agent is on the same loop.
  void call(const std::vector<JobHost>& hosts, const std::string& program, WorldLimits limits,
            std::chrono::milliseconds patience, const std::optional<Agent::Context>& here);
  /// This machine, on which programs see `devices`, and others that dial it. Error(kDevice) if it
  /// cannot listen.
  void meet(const std::vector<JobHost>& hosts, const Rendezvous& rendezvous,
            const Agent::Context& context, VisibleDevices devices);
  /// For another attempt: when nothing of the job can be left on hosts that were lost, spare hosts
  /// take their ranks; without a spare the lost host is called again, or may dial again; if that
  /// cannot be used, its ranks are left out, within the limits. Then `ready` or `unusable` comes
  /// again. At once if none was lost.
  void gather();
  /// Tells those that have dialled how the job has ended, and then `done`: when they know, or after
  /// kDismissLimit. They end with this process, which may report before that.
  void dismiss(int exit_code, std::function<void()> done);
  static constexpr std::chrono::seconds kDismissLimit{5};

  /// Whether another attempt would have more ranks than this one, because hosts are back.
  bool can_grow() const;

  /// The hosts that run the next attempt, once it is ready.
  std::vector<HostRanks> hosts() const;
  int num_ranks() const;
  /// Where the other hosts find the first one; "" = at the address of its interface, which its
  /// agent knows. Error(kConfig) if they cannot.
  std::string master_address() const;

 private:
  using Host = RosterHost;

  void set_hosts(const std::vector<JobHost>& hosts);
  void start_local_agent(Host& host, const Agent::Context& context);
  void call_next();
  void call_again(Host& host);
  std::vector<Candidate> candidates() const;
  void seat_spares();
  void connect(Host& host, OwnedFd in, OwnedFd out);
  void on_frame(Host& host, const Frame& frame);
  void on_hello(Host& host, const AgentHello& hello);
  void on_files(Host& host, const Frame& frame);
  void on_facts(Host& host, const HostFacts& facts);
  void on_lost(Host& host, const std::string& why);
  void on_unusable(Host& host, const std::string& why);
  bool runs_ranks(const Host& host) const;
  bool has_block_of(Candidate::State state) const;
  void check_ready();
  void begin();
  bool have_files();
  std::vector<InspectedHost> inspected() const;
  std::optional<Error> why_unfit();
  void wait_for_hosts();
  void look_for_returns();
  void tell_away();
  std::string caller() const;
  std::string hint_for(const Host& host) const;
  Error why_unusable() const;

  asio::io_context& io_;
  OutputSink& console_;
  const std::chrono::milliseconds lease_;
  const Events events_;
  std::unique_ptr<Agent> agent_;  // of this machine
  std::optional<ProgramFiles> program_;
  std::vector<Host> hosts_;
  std::vector<RankBlock> blocks_;
  std::vector<RankBlock> world_;  // those of `blocks_` that run in this attempt
  WorldLimits limits_;
  Inspect inspection_;
  bool own_cpu_workers_ = false;
  std::optional<FileSender> files_;
  std::set<std::string> told_;  // of what was found on the hosts
  std::chrono::nanoseconds patience_{0};
  std::int64_t deadline_ns_ = 0;  // for hosts that are waited for
  bool is_waiting_ = false;
  asio::steady_timer timer_;
  asio::steady_timer return_timer_;
  std::unique_ptr<JoiningNodes> nodes_;  // none if hosts are called
  bool is_ready_ = false;
  bool is_fenced_ = false;  // no host is called
};

}  // namespace hgt
