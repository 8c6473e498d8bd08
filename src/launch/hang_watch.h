#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "attempt_record.h"
#include "hang.h"

namespace hgt {

/// Checks every second whether a rank of an attempt hangs, or is stopped. Must outlive what it has
/// queued on the loop, also after stop().
class HangWatch {
 public:
  /// `found` is called within the loop, at each check that finds a hang; it may call stop().
  HangWatch(asio::io_context& io, AttemptRecord& attempt, std::function<void(const Hang&)> found);

  /// Does nothing if the job has no hang_limit.
  void start();
  void stop();

  /// Call it before a report of a rank counts: if this process has stood still, so that reports
  /// have waited for it, that time counts for no rank.
  void excuse_gap();
  /// The rank at fault if `waiting` reports a lost peer: a rank behind it that has made no progress
  /// for 30 s or, if that is less, half of the job's hang_limit. A waiting rank may time out before
  /// this watch finds the hang.
  std::optional<Hang> straggler_behind(const RankView& waiting);

 private:
  void wait();
  void check();
  std::optional<Hang> hang_after(std::chrono::milliseconds silent,
                                 std::chrono::milliseconds still) const;

  AttemptRecord& attempt_;
  const std::function<void(const Hang&)> found_;
  asio::steady_timer timer_;
  bool is_on_ = false;
  std::int64_t checked_ns_ = 0;
};

}  // namespace hgt
