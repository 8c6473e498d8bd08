#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "hgtrain/base/trace.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// While it lives, it times the op spans of its thread by a device: events in the queue mark both
/// ends of each, so that nothing waits. The queue must be kept full, or the host's pauses count.
class QueueClock final : public OpMarker {
 public:
  explicit QueueClock(const CudaQueue& queue) : queue_(queue) { mark_ops(this); }
  ~QueueClock() override { mark_ops(nullptr); }
  QueueClock(const QueueClock&) = delete;
  QueueClock& operator=(const QueueClock&) = delete;

  void begin(SpanRecord& op) override;
  void end(SpanRecord& op) noexcept override;
  /// Waits for the queue. Finished spans then have the duration of their ops on the device.
  void resolve_durations();

 private:
  struct Mark {
    explicit Mark(const CudaQueue& queue) : begin(queue), end(queue) {}
    CudaEvent begin, end;
    SpanRecord* op = nullptr;
  };
  const CudaQueue& queue_;
  std::deque<Mark> marks_;   ///< the first `used_` are since the last resolve_durations()
  std::vector<Mark*> open_;  ///< of unfinished spans
  std::size_t used_ = 0;
};

}  // namespace hgt
