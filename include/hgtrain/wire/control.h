#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/wire/store.h"

namespace hgt {

/// A short text that one thread writes, and any thread may read at any time. No thread ever waits
/// for another, not even for one that a debugger has stopped while it writes.
class SharedText {
 public:
  static constexpr std::size_t kMaxBytes = 31;  ///< longer texts are cut

  void operator=(std::string_view text) {
    text = text.substr(0, kMaxBytes);
    const unsigned next = 1 - current_;
    for (std::size_t i = 0; i < text.size(); ++i)
      copies_[next][i].store(text[i], std::memory_order_relaxed);
    copies_[next][text.size()].store('\0', std::memory_order_relaxed);
    current_ = next;
  }
  std::string get() const {
    std::string text;
    for (const std::atomic<char>& at : copies_[current_]) {
      const char c = at.load(std::memory_order_relaxed);
      if (c == '\0') break;
      text += c;
    }
    return text;
  }

 private:
  std::atomic<char> copies_[2][kMaxBytes + 1] = {};
  std::atomic<unsigned> current_{0};
};

/// What a rank is doing, for heartbeats and hang reports.
struct Progress {
  std::atomic<std::int64_t> step{0};           ///< finished steps
  std::atomic<std::int64_t> begun{0};          ///< steps that have begun
  std::atomic<const char*> phase{"starting"};  ///< a string literal
  SharedText action;                           ///< of the schedule, as text; "": none
  std::atomic<std::uint64_t> collective{0};    ///< collectives entered, of all groups
  std::atomic<std::uint64_t> work{0};          ///< grows while it computes, also in a long phase
  /// What the rank waits for, or was waiting for when a wait failed: a collective of this group, or
  /// the device. A string literal; null: it does not wait.
  std::atomic<const char*> waits_in{nullptr};
  std::atomic<std::uint64_t> waits_for{0};  ///< the collective's number in the group; 0: none

  /// Runs `body`, which waits. If it throws, the rank still counts as waiting.
  template <class Body>
  void wait(const char* in, std::uint64_t number, const Body& body) {
    waits_for = number;
    waits_in = in;
    body();
    waits_in = nullptr;
  }
};

/// A worker's end of the control channel: one connected stream to its agent, inherited as the
/// descriptor HGTRAIN_CONTROL_FD. It carries the rendezvous store, heartbeats, events and commands.
///
/// A reader thread handles what arrives. A writer thread sends what is queued and, each second, a
/// heartbeat. Every member may be called from any thread, also from the commands, which run on the
/// reader thread.
class ControlChannel : public Store {
 public:
  struct Commands {
    std::function<void()> stop;        ///< finish the step, checkpoint, leave
    std::function<void()> checkpoint;  ///< checkpoint after this step and continue
    /// A peer failed: abort communicators. Store waits have ended with Error(kPeer) already.
    std::function<void(const std::string& reason)> abort;
    std::function<void()> lost;  ///< the launcher is gone; store waits have ended likewise
    /// The job hangs: write to stderr where this process stands. `abort` follows.
    std::function<void()> show_stacks;
  };

  /// Opens the channel that the environment names (RANK, HGTRAIN_CONTROL_FD, HGTRAIN_JOB_KEY). It
  /// unsets the latter two, so that programs started by this process do not inherit them: call it
  /// before starting threads. A worker that was started by hand, without these variables, gets a
  /// channel whose store is in memory and whose events are discarded. Throws Error(kConfig) if the
  /// variables are set but invalid.
  static std::unique_ptr<ControlChannel> open(Commands commands);
  /// Sends what is queued, and ends the stream.
  ~ControlChannel() override = default;

  virtual Progress& progress() = 0;

  /// Sends an event to the agent: "started", "metrics", "checkpoint", "notice", "failed", "done".
  /// `body` is an object; queued, never blocks on the network.
  virtual void send(const std::string& kind, const nlohmann::json& body) = 0;
  /// Blocks until everything sent so far has left this process, or the launcher is gone.
  virtual void flush() = 0;
};

}  // namespace hgt
