#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>

#include <asio/io_context.hpp>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/machine/visible_gpus.h"

#include "file_receiver.h"
#include "frame_link.h"
#include "lease.h"
#include "link_probe.h"
#include "local_ranks.h"
#include "output_sink.h"
#include "ports.h"
#include "writer_thread.h"

namespace hgt {

/// The agent of one host of a job: carries out the coordinator's messages, attempt after attempt.
/// If the stream ends, it kills what it has started. Must outlive the loop.
class Agent {
 public:
  struct Context {
    asio::io_context& io;
    int group_fd = -1;  ///< of the job's control group, -1 = none
    /// Children of this process that are none of the ranks'.
    std::function<std::set<pid_t>()> others = [] { return std::set<pid_t>(); };
    /// For a coordinator on another machine: how long it may be silent before its Welcome sets
    /// another lease. 0 = for ever.
    std::chrono::milliseconds lease{0};
    /// Called when the coordinator is gone and everything that this agent has started has been
    /// killed, except for what cannot be killed.
    std::function<void(const std::string& why)> ended;
    /// For look_at_devices(), whose error ends the loop.
    std::chrono::milliseconds driver_limit = std::chrono::hours(24);
    /// The process is only this agent's: if it is stopped for a lease, guards of the ranks kill it.
    bool is_own_process = false;
  };

  Agent(Context context, OwnedFd in, OwnedFd out);
  /// Waits until the logs are written, and a moment for look_at_devices().
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Sends the first message to a launcher on another host. `devices` are those that programs see
  /// here.
  void say_hello(VisibleDevices devices);
  /// Says hello with the devices that programs see here. A driver may take longer than a lease to
  /// tell, or for ever, so a thread asks it.
  void look_at_devices();
  /// Passes a signal that this process received on to the whole job.
  void report_signal(int signal) { link_.send(SignalReceived{signal}); }

  /// Whether the coordinator has accepted this agent.
  bool is_welcome() const { return is_welcome_; }
  /// The coordinator's last message, if it has arrived: how the job ended, or why it refuses this
  /// node.
  const std::optional<int>& exit_code() const { return exit_code_; }
  const std::optional<std::string>& refusal() const { return refusal_; }

 private:
  /// Counts the output on its way to the console, for which no credit has come back yet.
  class Window final : public OutputSink {
   public:
    explicit Window(FrameLink& link) : link_(link) {}
    void write(int rank, Stream stream, std::string_view text) override;
    void end(int rank) override;
    bool is_full() const override;
    void credit(std::int64_t bytes) { open_bytes_ -= bytes; }

   private:
    FrameLink& link_;
    std::int64_t open_bytes_ = 0;
  };

  void on_frame(const Frame& frame);
  void answer_inspection();
  void give_up();
  void on_stream_ended(const std::string& why);
  void receive_files(const PushFiles& order);
  FileReceiver& files();
  void reserve_port(const ReservePort& message);
  void listen_for_link(const ListenForLink& message);
  void measure(const MeasureLink& message);
  void spawn(const Spawn& order);
  /// Carries out a message to the ranks of an attempt, unless they are no longer the last Spawn's.
  template <class Message, class Act>
  void with_ranks(const Frame& frame, const Act& act);
  void end_now();

  const Context context_;
  FrameLink link_;
  Window window_;
  WriterThread logs_;
  Lease lease_;
  std::optional<MasterPort> port_;
  /// What the thread that looks at the devices may still use.
  struct Look {
    std::mutex mutex;
    Agent* agent;  // nullptr: it is gone
  };
  std::shared_ptr<Look> look_;
  std::future<void> look_end_;
  std::optional<VisibleDevices> devices_;  // once it has said hello
  std::optional<Inspect> inspection_;      // that the launcher waits for
  std::unique_ptr<LinkListener> link_listener_;
  std::optional<FileReceiver> files_;
  std::unique_ptr<LocalRanks> ranks_;     // of the last Spawn
  std::optional<std::string> why_ended_;  // the stream
  bool is_welcome_ = false;
  std::optional<int> exit_code_;
  std::optional<std::string> refusal_;
  asio::steady_timer end_timer_;
};

}  // namespace hgt
