#pragma once

#include <chrono>
#include <functional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rank_commands.h"

namespace hgt {

/// Brings an attempt to its end, in stages: each asks harder than the one before, and the next
/// begins by itself if this one has not been enough. Must outlive the loop, unless it is cancelled.
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

  /// `entered` is called as each stage begins, before it asks anything.
  StopStages(asio::io_context& io, const AttemptRecord& attempt,
             std::function<void(Stage)> entered);

  Stage stage() const { return stage_; }
  /// Goes on to `next`; does nothing if it has begun already. kAborting: there is a failure.
  void advance(Stage next);
  void cancel() { timer_.cancel(); }

 private:
  void then(Stage next, std::chrono::milliseconds after);
  void abort();

  const AttemptRecord& attempt_;
  const RankCommands ranks_;
  const std::function<void(Stage)> entered_;
  Stage stage_ = Stage::kRunning;
  asio::steady_timer timer_;
};

}  // namespace hgt
