#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "hgtrain/wire/frame.h"
#include "hgtrain/wire/job_key.h"
#include "hgtrain/wire/messages.h"

#include "guard.h"
#include "job_store.h"
#include "output_sink.h"
#include "rank_output.h"

namespace hgt {

/// One started worker, its guard and streams, on the loop. Must outlive what it has queued there:
/// until `gone`, or until the loop runs no more.
class Worker {
 public:
  /// What it reports to its owner, on the loop, never from within a call of a member.
  struct Events {
    std::function<void(Worker&)> ended;  ///< the program has ended: see end()
    std::function<void(Worker&)> gone;   ///< and nothing of it is left, all output read
    /// Its guard was killed: what it guarded are children of this process now. Before `ended`.
    std::function<void(Worker&)> orphaned;
    std::function<void(Worker&, const std::string& kind, const nlohmann::json& body)> event;
    /// What came on the control channel is not of this job; the stream is closed.
    std::function<void(Worker&, const std::string& why)> broken;
    std::function<void(Worker&, const Heartbeat& beat)> heartbeat;
  };

  Worker(asio::io_context& io, int rank, GuardedWorker process, const JobKey& key, JobStore& store,
         RankOutput output, OutputSink* console, Events events);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  pid_t guard() const { return guard_; }
  bool has_ended() const { return end_.has_value(); }
  bool is_gone() const { return gone_; }
  /// How it ended; at_ns is 0 if its guard was killed and took it along.
  const WorkerEnd& end() const { return *end_; }
  std::vector<std::string> last_lines() const { return output_.last_lines(); }

  /// Sends the signal to its process group, SIGKILL to all its descendants. A guard that somebody
  /// has stopped is continued so that it passes the signal on; one that a debugger holds cannot be,
  /// so SIGKILL goes to the guard itself.
  void signal(int number);
  /// Somebody has stopped it (SIGSTOP, or its terminal); a debugger has not.
  bool is_stopped() const;
  /// Continues the guard if somebody has stopped it: it could not say that the worker has ended.
  void wake_stopped_guard();
  /// Tells the guard that this process runs; it need not, if the guard has no lease.
  void renew_lease();
  /// Kills the guard itself, if it is still there.
  void kill_guard();
  /// Kills all of it at once and waits for the end, without the loop; nothing is reported.
  void kill_and_wait();
  /// Gives up all its streams. Nothing is reported from now on, and once what is queued on the loop
  /// has run, it may be destroyed.
  void close();
  /// Queues a frame for it; it is read whenever the worker opens its end.
  void send(std::string_view frame);
  /// Ends the control channel.
  void close_channel() { control_.close(); }
  /// Reads its output again if the console was full.
  void resume_output();

 private:
  using Descriptor = asio::posix::stream_descriptor;
  void watch_lifeline();
  void on_lifeline();
  void watch_output(OutputSink::Stream stream);
  void on_output(OutputSink::Stream stream);
  void watch_control();
  bool read_control();
  void dispatch(const Frame& frame);
  void greet(const Frame& frame);
  void pump();
  void break_control(const std::string& why);
  void check_gone();
  void wake_guard();
  char guard_state() const;

  const int rank_;
  const pid_t pid_;
  const pid_t guard_;
  const JobKey key_;
  JobStore& store_;
  const Events events_;
  Descriptor lifeline_;
  Descriptor control_;
  std::array<Descriptor, 2> streams_;  // stdout, stderr
  std::array<bool, 2> paused_{};       // the console was full
  asio::steady_timer drain_limit_;
  RankOutput output_;
  OutputSink* console_;
  FrameReader frames_;
  std::string outbox_;
  bool sending_ = false;
  bool greeted_ = false;  // it has said hello
  std::optional<WorkerEnd> end_;
  bool gone_ = false;
};

}  // namespace hgt
