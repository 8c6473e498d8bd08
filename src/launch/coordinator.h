#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

#include "agent_link.h"
#include "agent_messages.h"
#include "attempt_record.h"
#include "failure.h"
#include "hang_watch.h"
#include "job_store.h"
#include "rank_commands.h"
#include "roster.h"
#include "stop_stages.h"

namespace hgt {

/// One attempt of a job on all its hosts: orders the agents to start and stop the ranks, finds out
/// which rank failed or hangs, and decides the verdict. Does not start or signal processes itself.
/// Must outlive the loop, unless it is closed first.
class Coordinator {
 public:
  struct Context {
    asio::io_context& io;
    const JobSpec& spec;
    Spawn order;  ///< the fields that are equal for all hosts of the attempt
    std::function<void(const std::string& text)> notice;
    std::function<void(const Error& why)> cannot_start;  ///< before any rank was started
    std::function<void()> finished;  ///< no process is left, or none that can be killed
  };

  Coordinator(Context context, std::vector<HostRanks> hosts, int number);

  void start();

  /// Handles a message of an agent. Error(kPeer) if agents do not send such messages.
  void on_frame(const AgentLink& link, const Frame& frame);
  /// Call it when an agent is lost; its guards kill what it has started.
  void on_lost(const AgentLink& link, const std::string& why);

  /// Handles the user's request to stop: hgtrain's workers finish their step and save; other
  /// programs get the signal. `by` names it for the verdict: "SIGTERM", or a command.
  void stop(int signal, const std::string& by);
  /// Whether hgtrain's workers have no step to finish yet, because some of them still connect: then
  /// stop() ends all ranks at once.
  bool is_connecting() const;
  /// Whether all ranks are being ended already.
  bool is_ending() const { return stages_.stage() >= Stage::kAborting; }
  /// hgtrain's workers finish their step and save, so that another attempt can resume from there.
  void stop_for_next_attempt();
  /// Passes on a signal that does not ask the job to stop; hgtrain's workers get `command` instead.
  void relay(int signal, MessageKind command);
  void kill();

  /// Once what is queued on the loop has run, it may be destroyed.
  void close();

  Verdict verdict() const;
  /// The host that made a restart fail, because it could not start its ranks.
  struct Unstarted {
    std::string host;
    Error why;
  };
  const std::optional<Unstarted>& unstarted() const { return unstarted_; }
  /// For `hgtrain status --json`: hosts, ranks, and "state": running, stopping or ending.
  nlohmann::json status() const;
  /// Whether the attempt failed in a way that another attempt may avoid.
  bool is_worth_a_restart() const;

 private:
  using Stage = StopStages::Stage;

  void spawn(const PortReserved& master);

  // What agents tell of a rank, in this order: its heartbeats and events; that its control channel
  // is broken; that its process has ended; that no process of its tree is left.
  template <class Message, class Act>
  void with(const AgentLink& link, const Frame& frame, const Act& act);
  std::size_t host_of(const AgentLink& link) const;
  RankView& view_of(int rank, const AgentLink& link);
  void on_heartbeat(RankView& rank, const Heartbeat& beat);
  void on_event(RankView& rank, const RankEvent& message);
  void on_broken(RankView& rank, const std::string& why);
  void on_ended(RankView& rank, const Ended& end);
  void on_gone(RankView& rank, const Gone& message);
  /// Closes the control channel, because the rank sent what it must not.
  void break_channel(RankView& rank, const std::string& why);
  void pass_on(RankView& rank, const std::string& kind, const nlohmann::json& body);
  void on_not_spawned(const AgentLink& link, Error error);
  void fail(const Failure& failure);
  void end_host(std::size_t host, const Failure& failure);
  void blame_own_network(Failure& failure);
  std::vector<std::string> silent_hosts() const;
  Failure with_host(Failure failure) const;
  bool has_ranks(const AgentLink& link) const;  ///< that are not gone
  bool are_gone() const;                        ///< all ranks
  void on_stage(Stage stage);
  void announce_failure();
  void end_connecting();
  void on_hang(const Hang& hang);
  void blame_straggler(const RankView& waiting);
  void ask_for_stacks();
  std::string hint_for_lost(const AgentLink& link) const;

  const Context context_;
  const JobSpec& spec_;
  JobStore store_;
  AttemptRecord record_;
  const std::vector<HostRanks>& hosts_ = record_.hosts;
  std::vector<RankView>& ranks_ = record_.ranks;
  const RankCommands commands_{record_};
  StopStages stages_;
  HangWatch hang_watch_;
  asio::steady_timer announcement_;
  std::optional<Unstarted> unstarted_;
  bool spawned_ = false;  // the agents were asked to start
  bool started_ = false;  // a rank has said that it can train
};

}  // namespace hgt
