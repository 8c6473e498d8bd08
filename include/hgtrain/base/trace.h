#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace hgt {

/// The least that a piece of work costs, on any device and with any algorithm.
struct Work {
  double flops = 0;  ///< floating-point operations: of matrix products and attention
  double bytes = 0;  ///< read and written, each operand once: of all other ops
};

/// A piece of a thread's time, by the clock of now_ns(), which all processes of a host share.
struct SpanRecord {
  enum class Kind : std::uint8_t {
    kOp,          ///< an operation, which a profile counts
    kPhase,       ///< contains ops and other phases: a step, the backward of a block
    kRare,        ///< like a phase, but rare and long: an evaluation, a checkpoint
    kCollective,  ///< like a phase; its number is an argument in a trace, no part of the name
  };
  const char* name;     ///< a literal
  std::int64_t number;  ///< of the step, the block or the collective; -1 for none
  std::int64_t begin_ns;
  std::int64_t end_ns;  ///< 0: the span is still open
  double flops, bytes;  ///< its Work
  Kind kind;
  int depth;  ///< spans of the same thread that were open when it began
  int micro;  ///< number of the micro-batch in its step; -1 for none
};

/// What a thread did, in the order in which its spans began.
struct ThreadSpans {
  const char* name;
  std::vector<SpanRecord> spans;
};

/// What all threads of the process record: nothing (as at the start), rare spans, or all spans.
enum class Recording { kOff, kRare, kAll };
void record_spans(Recording what);

/// From now on, `begin` and `end` are called around every span, recorded or not, for a profiler
/// that shows them; null ends this. No span may be open, and no other thread may begin one during
/// the call.
void observe_spans(void (*begin)(const char* name), void (*end)());

/// Called at both ends of a thread's op spans, in addition to reading the clock. If a device runs
/// the ops later, it can mark their positions in the device's queue.
class OpMarker {
 public:
  virtual ~OpMarker() = default;
  virtual void begin(SpanRecord& op) = 0;
  virtual void end(SpanRecord& op) noexcept = 0;
};
/// Sets the marker for the op spans that the calling thread records from now on; null for none. No
/// op may be open.
void mark_ops(OpMarker* marker);

/// Names the calling thread; call it before the thread's first span. When a thread ends, the next
/// one of the same name continues its list of spans.
void name_thread(const char* name);

/// All spans recorded so far, also those that are still open. May be called from any thread.
std::vector<ThreadSpans> recorded_spans();
/// The number of spans that were not recorded because their thread's memory was full. A thread has
/// memory for a million spans, which is allocated with its first one.
std::int64_t lost_spans();
/// Discards what was recorded. No span may be open on any thread.
void forget_spans();

/// Records the scope in which it lives. It costs a relaxed load if nothing is recorded, else two
/// readings of the clock. Allocates only for a thread's first span.
class Span {
 public:
  explicit Span(const char* name, Work work = {})
      : Span(Recording::kAll, name, SpanRecord::Kind::kOp, -1, -1, work) {}
  static Span phase(const char* name, std::int64_t number = -1, int micro = -1) {
    return {Recording::kAll, name, SpanRecord::Kind::kPhase, number, micro, {}};
  }
  static Span collective(const char* name, std::int64_t number) {
    return {Recording::kAll, name, SpanRecord::Kind::kCollective, number, -1, {}};
  }
  static Span rare(const char* name, std::int64_t number = -1) {
    return {Recording::kRare, name, SpanRecord::Kind::kRare, number, -1, {}};
  }
  ~Span() {
    if (record_ || observed_) close();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Span(Recording level, const char* name, SpanRecord::Kind kind, std::int64_t number, int micro,
       Work work) {
    if (noticed.load(std::memory_order_relaxed) >= level)
      open(level, name, kind, number, micro, work);
  }
  void open(Recording level, const char* name, SpanRecord::Kind kind, std::int64_t number,
            int micro, Work work);
  void close();

  friend void record_spans(Recording what);
  friend void observe_spans(void (*begin)(const char* name), void (*end)());
  static inline std::atomic<Recording> noticed{Recording::kOff};  ///< recorded or observed
  SpanRecord* record_ = nullptr;
  bool observed_ = false;
};

}  // namespace hgt
