#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

#include "agent_messages.h"
#include "frame_link.h"
#include "job_store.h"
#include "lease.h"
#include "output_sink.h"
#include "worker.h"
#include "writer_thread.h"

namespace hgt {

/// The ranks of one attempt that run on this host: starts them, passes signals and commands on to
/// them, and reports to the coordinator what happens to them. It decides nothing. Must outlive the
/// loop, unless it is closed first.
class LocalRanks {
 public:
  struct Context {
    asio::io_context& io;
    FrameLink& link;      ///< the stream for its reports
    OutputSink& console;  ///< for the workers' output, if it is shown
    WriterThread& logs;
    int group_fd = -1;  ///< of the job's control group, -1 = none
    /// Children of this process that are none of the ranks'.
    std::function<std::set<pid_t>()> others;
    Lease& lease;                   ///< of the stream; guards have the same on this process
    bool guards_end_agent = false;  ///< if the lease is over, they kill this process, too
    int held_port = 0;              ///< MASTER_PORT, if this host reserves it
    /// A rank cannot be started, or the lease has passed because this process stood still. None is
    /// left running.
    std::function<void(const Error& why)> cannot_start;
    std::function<void()> gone;  ///< no process of any rank is left
    /// A guard has killed its rank, because this process stood still for the lease: the coordinator
    /// may have given its ranks to others.
    std::function<void()> lease_ended = [] {};
  };

  LocalRanks(Context context, const Spawn& order);

  /// Starts one rank on each turn of the loop: on a busy machine, all can take longer than a lease,
  /// and other machines hear of this one meanwhile. The coordinator hears of ranks once all have
  /// started, and `act` of once_started() waits for that.
  void start();
  void once_started(std::function<void()> act);
  /// Starts no more ranks.
  void stop_starting();
  void command(const RankCommand& message);
  void signal(const SignalRanks& message);
  void kill_guards();
  void close_channel(int rank);
  /// A value of the store that this host has asked for.
  void put(const AgentStoreValue& message);
  /// Call it when the console or the writer of logs has room again.
  void resume_output();
  std::uint32_t attempt() const { return order_.attempt; }
  bool are_gone() const;
  /// Gives up all descriptors; once what is queued on the loop has run, it may be destroyed.
  void close();

 private:
  template <class Message>
  void report(Message message);
  void prepare_host();
  void start_next();
  void start_worker(int rank);
  bool has_lease() const { return context_.lease.length().count() > 0; }
  void renew_leases();
  int core_sharers() const;
  Worker::Events worker_events();
  void on_ended(const Worker& worker);
  void on_gone(const Worker& worker);
  void on_orphaned(const Worker& worker);
  std::set<pid_t> kill_orphans(std::chrono::milliseconds patience);
  void name_if_stopped(const Worker& worker);
  void watch_workers();
  std::string port_user_at_the_end() const;
  template <class Visit>
  void for_ranks(int rank, const Visit& visit);

  const Context context_;
  const Spawn order_;
  const JobSpec spec_;
  std::string address_;  // of this host, "" = not said
  const std::optional<long> oom_kills_before_;
  const JobKey key_ = JobKey::random();
  JobStore store_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool is_starting_ = false;
  std::vector<std::function<void()>> waiting_;  // until all are started
  std::map<int, std::int64_t> signalled_ns_;    // by rank: when we first sent it a signal
  std::map<int, int> stopped_checks_;           // by rank: how often in a row it was found stopped
  bool has_orphans_ = false;                    // which cannot be killed yet
  asio::steady_timer timer_;
};

}  // namespace hgt
