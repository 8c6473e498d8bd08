#include "queue_clock.h"

#include "hgtrain/base/error.h"

namespace hgt {

void QueueClock::begin(SpanRecord& op) {
  if (used_ == marks_.size()) marks_.emplace_back(queue_);
  Mark& mark = marks_[used_++];
  mark.op = &op;
  mark.begin.record(queue_);
  open_.push_back(&mark);
}

void QueueClock::end(SpanRecord&) noexcept {
  try {
    open_.back()->end.record(queue_);
  } catch (const Error&) {  // the queue failed: its next user gets the same error
  }
  open_.pop_back();
}

void QueueClock::resolve_durations() {
  queue_.synchronize();
  for (; used_ > 0; --used_) {
    const Mark& mark = marks_[used_ - 1];
    mark.op->end_ns = mark.op->begin_ns +
                      static_cast<std::int64_t>(CudaEvent::elapsed_ms(mark.begin, mark.end) * 1e6);
  }
}

}  // namespace hgt
