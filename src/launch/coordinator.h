#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

#include "agent_link.h"
#include "agent_messages.h"
#include "failure.h"
#include "hang.h"
#include "job_store.h"
#include "roster.h"

namespace hgt {

/// What the coordinator knows of one rank.
struct RankView {
  std::size_t host = 0;  ///< its index
  std::int64_t pid = 0;
  Pulse pulse;
  bool is_heard = true;  ///< its control channel is not broken
  std::optional<Ended> end;
  bool is_gone = false;  ///< nothing is left of it, or its host is lost
  std::vector<std::string> last_lines;
  std::string error_message;  ///< of its error file
};

/// One attempt of a job on all its hosts: has the agents start the ranks and stop them, finds out
/// which rank failed or hangs, and knows how it went. Starts and signals no process itself. Must
/// outlive the loop, unless it is closed first.
class Coordinator {
 public:
  struct Context {
    asio::io_context& io;
    const JobSpec& spec;
    std::vector<HostRanks> hosts;
    Spawn order;  ///< what is the same for all hosts and attempts
    std::function<void(const std::string& text)> notice;
    std::function<void(const Error& why)> cannot_start;
    std::function<void()> finished;  ///< nothing is left, or what is left cannot be killed
  };

  Coordinator(Context context, int number);

  void start();

  /// What an agent sent. Error(kPeer) if it is no message of an agent.
  void on_frame(const AgentLink& link, const Frame& frame);
  /// The agent is gone, and its guards kill what it started.
  void on_lost(const AgentLink& link, const std::string& why);

  /// The user's signal: our workers finish their step and checkpoint, others get it passed on.
  void stop(int signal);
  /// Passes on a signal that need not end anything; our workers get `command` instead.
  void relay(int signal, MessageKind command);
  void kill();

  /// Once what is queued on the loop has run, it may be destroyed.
  void close();

  Verdict verdict() const;
  /// It failed, and another attempt may do better.
  bool is_worth_a_restart() const;

 private:
  enum class Stage {
    kRunning,
    kStopping,
    kAborting,
    kTerminating,
    kKilling,
    kKillingGuards,
    kFinished
  };

  void spawn(const PortReserved& master);
  void advance(Stage next);
  void then(Stage next, std::chrono::milliseconds after);
  void signal_all(int number);
  void command(const RankView& rank, const std::string& frame);
  void command_all(const std::string& frame);
  void ask_to_stop(int signal);

  template <class Message, class Act>
  void with(const Frame& frame, const Act& act);
  std::size_t host_of(const AgentLink& link) const;
  RankView& view_of(int rank, const AgentLink& link);
  void on_heartbeat(RankView& rank, const Heartbeat& beat);
  void on_event(RankView& rank, const RankEvent& message);
  void on_broken(RankView& rank, const std::string& why);
  void on_ended(RankView& rank, const Ended& end);
  void on_gone(RankView& rank, const Gone& message);
  void break_channel(RankView& rank, const std::string& why);
  void tell(RankView& rank, const std::string& kind, const nlohmann::json& body);
  void fail(const Failure& failure);
  Failure placed(Failure failure) const;
  bool are_gone() const;
  void watch_for_hangs();
  void check_for_hangs();
  void ask_for_stacks();
  std::optional<Hang> hang_after(std::chrono::milliseconds silent,
                                 std::chrono::milliseconds still) const;
  void blame_straggler(const RankView& waiting);
  bool obeys_commands(const RankView& rank) const;
  bool is_clean(const RankView& rank) const;

  void describe_stop(Verdict& verdict) const;
  void describe_rank(Verdict& verdict, const Failure& failure) const;
  void describe(Verdict& verdict, const Failure& failure) const;

  const Context context_;
  const JobSpec& spec_;
  const std::uint32_t epoch_;
  JobStore store_;
  std::vector<RankView> ranks_;
  bool spawned_ = false;  // the agents were told to start
  int master_port_ = 0;
  std::string port_user_;            // who has taken MASTER_PORT
  std::map<int, Failure> failures_;  // by Failure::key()
  Stage stage_ = Stage::kRunning;
  int stop_signal_ = 0;
  asio::steady_timer stage_timer_;
  asio::steady_timer hang_timer_;
  std::int64_t hang_check_ns_ = 0;
};

}  // namespace hgt
