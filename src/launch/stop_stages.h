#pragma once

#include <chrono>
#include <functional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rank_commands.h"

namespace hgt {

/// Ends an attempt in stages, each stricter than the one before. The next stage begins
/// automatically if ranks are left after the time of this one. Must outlive the loop, unless it is
/// cancelled.
class StopStages {
 public:
  enum class Stage {
    kRunning,
    kStopping,
    kAborting,
    kTerminating,
    kKilling,
    kKillingGuards,
    kFinished
  };

  /// `entered` is called when a stage begins, before it sends anything.
  StopStages(asio::io_context& io, const AttemptRecord& attempt,
             std::function<void(Stage)> entered);

  Stage stage() const { return stage_; }
  /// Begins the stage `next`; does nothing if it has begun already. kAborting requires a failure,
  /// or a stop by the user.
  void advance(Stage next);
  void cancel() { timer_.cancel(); }
  /// In kAborting and kTerminating: until ranks that are left get SIGKILL.
  std::chrono::nanoseconds until_kill() const;

 private:
  void then(Stage next, std::chrono::milliseconds after);
  void abort();
  std::chrono::milliseconds unkillable_limit() const;

  const AttemptRecord& attempt_;
  const RankCommands ranks_;
  const std::function<void(Stage)> entered_;
  Stage stage_ = Stage::kRunning;
  Stage next_ = Stage::kRunning;  // when the time is over
  asio::steady_timer timer_;
};

}  // namespace hgt
