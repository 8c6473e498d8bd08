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

/// One started worker, its guard and streams, on the loop. The owner keeps it until `gone`, or
/// until the loop runs no more, because what it has queued there refers to it.
class Worker {
 public:
  /// Reports to the owner. They are called on the loop, never from within a member function.
  struct Events {
    std::function<void(Worker&)> ended;  ///< the program has ended: see end()
    std::function<void(Worker&)>
        gone;  ///< then: none of its processes is left, and all output was read; it is in the log,
               ///< unless the log's disk stands still
    /// Its guard was killed, so the guarded processes are children of this process now. Called
    /// before `ended`.
    std::function<void(Worker&)> orphaned;
    std::function<void(Worker&, const std::string& kind, const nlohmann::json& body)> event;
    /// A message on the control channel did not belong to this job; the stream is closed.
    std::function<void(Worker&, const std::string& why)> broken;
    std::function<void(Worker&, const Heartbeat& beat)> heartbeat;
  };

  Worker(asio::io_context& io, int rank, GuardedWorker process, const JobKey& key, JobStore& store,
         RankOutput output, Events events);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  pid_t guard() const { return guard_; }
  bool has_ended() const { return end_.has_value(); }
  bool is_gone() const { return gone_; }
  bool has_guard() const { return lifeline_.is_open(); }  ///< which has not been reaped
  /// How it ended; at_ns is 0 if it was killed together with its guard.
  const WorkerEnd& end() const { return *end_; }
  std::vector<std::string> last_lines() const { return output_.last_lines(); }

  /// Sends the signal to its process group, SIGKILL to all its descendants. If the guard was
  /// stopped by a signal, it is continued first, so that it passes the signal on. A guard that a
  /// debugger holds cannot be continued, so SIGKILL goes to the guard itself.
  void signal(int number);
  /// Whether a signal has stopped it (SIGSTOP, or from its terminal), and not a debugger.
  bool is_stopped() const;
  /// Continues the guard if a signal has stopped it, because it could not report the end of the
  /// worker.
  void wake_stopped_guard();
  /// Tells the guard that this process still runs; not needed if the guard has no lease.
  void renew_lease();
  /// Kills the guard itself, if it still runs.
  void kill_guard();
  /// Kills the worker and its guard at once and waits until they are gone, without the loop;
  /// nothing is reported.
  void kill_and_wait();
  /// Gives up all its streams. Nothing is reported from now on, and once what is queued on the loop
  /// has run, it may be destroyed.
  void close();
  /// Queues a frame for the worker, which reads it whenever it opens its end.
  void send(std::string_view frame);
  /// Ends the control channel.
  void close_channel() { control_.close(); }
  /// Reads its output again if the console or the log was full.
  void resume_output();

 private:
  using Descriptor = asio::posix::stream_descriptor;
  void watch_lifeline();
  void on_lifeline();
  void on_end_reported(const WorkerEnd& end);
  void on_guard_gone();
  void tell_guard(int signal);
  void watch_output(OutputSink::Stream stream);
  void read_rest(OutputSink::Stream stream);
  void on_output(OutputSink::Stream stream);
  void watch_control();
  bool read_control();
  void dispatch(const Frame& frame);
  void greet(const Frame& frame);
  void pump();
  void break_control(const std::string& why);
  void check_gone();
  void on_gone();
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
  std::array<bool, 2> paused_{};       // the output was full
  asio::steady_timer drain_limit_;
  RankOutput output_;
  FrameReader frames_;
  std::string outbox_;
  bool sending_ = false;
  bool greeted_ = false;  // it has said hello
  std::optional<WorkerEnd> end_;
  bool is_finishing_ = false;  // the log is written to its end
  bool gone_ = false;
};

}  // namespace hgt
