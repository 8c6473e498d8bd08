#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// What a rank is doing, for heartbeats and hang reports.
struct Progress {
  std::atomic<std::int64_t> step{0};              ///< finished steps
  std::atomic<const char*> phase{"starting"};     ///< a string literal
  std::atomic<std::uint64_t> collective{0};       ///< collectives entered
};

/// A worker's end of the control channel: one connected stream to its agent, inherited as the
/// descriptor HGTRAIN_CONTROL_FD. It carries the rendezvous store, heartbeats, events and commands.
///
/// A reader thread answers the stream and a timer thread sends heartbeats; every member may be called
/// from any thread. Where the stream ends (the launcher is gone), `on_lost` runs on the reader thread.
class ControlChannel {
 public:
  struct Commands {
    std::function<void()> stop;        ///< finish the step, checkpoint, leave
    std::function<void()> checkpoint;  ///< checkpoint after this step and go on
    std::function<void(const std::string& reason)> abort;  ///< a peer failed: abort communicators
    std::function<void()> lost;        ///< the launcher is gone
  };

  /// From the environment (RANK, HGTRAIN_CONTROL_FD, HGTRAIN_JOB_KEY); a worker started by hand without
  /// them gets a channel whose store is in memory and whose events go nowhere.
  static std::unique_ptr<ControlChannel> open(Commands commands);
  virtual ~ControlChannel() = default;

  virtual Progress& progress() = 0;

  /// The rendezvous store: keys of this job and this restart only.
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key. Throws Error(kPeer), naming the key, on timeout or where the job is ending.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;

  /// Tells the agent something: "started", "metrics", "checkpoint", "notice", "failed", "done".
  /// `body` is an object; queued, never blocks on the network.
  virtual void send(const std::string& kind, const nlohmann::json& body) = 0;
  /// Blocks until everything sent so far has left this process.
  virtual void flush() = 0;
};

}  // namespace hgt
