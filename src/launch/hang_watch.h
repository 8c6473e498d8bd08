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

/// Looks every second for a rank of an attempt that has hung. Must outlive the loop, unless it is
/// stopped.
class HangWatch {
 public:
  HangWatch(asio::io_context& io, AttemptRecord& attempt, std::function<void(const Hang&)> found);

  /// Does nothing if the job has no hang_limit.
  void start();
  void stop();

  /// `waiting` reports that it has lost a peer. A rank that waits for another may time out before
  /// this watch does: if another has stood still behind it for long, that one is at fault.
  std::optional<Hang> straggler_behind(const RankView& waiting) const;

 private:
  void wait();
  void look();
  std::optional<Hang> hang_after(std::chrono::milliseconds silent,
                                 std::chrono::milliseconds still) const;

  AttemptRecord& attempt_;
  const std::function<void(const Hang&)> found_;
  asio::steady_timer timer_;
  bool is_on_ = false;
  std::int64_t looked_ns_ = 0;
};

}  // namespace hgt
