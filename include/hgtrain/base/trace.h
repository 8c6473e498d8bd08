#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace hgt {

/// What a piece of work costs at least, whatever computes it.
struct Work {
  double flops = 0;  ///< floating-point operations: of matrix products and attention
  double bytes = 0;  ///< read and written, each operand passed over once: of everything else
};

/// A piece of a thread's time, by the clock of now_ns(), which all processes of a host share.
struct SpanRecord {
  enum class Kind : std::uint8_t {
    kOp,     ///< work of its own: what a profile counts
    kPhase,  ///< what ops and other phases are part of: a step, the backward of a block
    kRare,   ///< likewise, but rare and long: an evaluation, a checkpoint
  };
  const char* name;     ///< a literal
  std::int64_t number;  ///< of the step, the block: -1 for none
  std::int64_t begin_ns;
  std::int64_t end_ns;  ///< 0: it is not over
  double flops, bytes;  ///< its Work
  Kind kind;
  int depth;  ///< spans of the same thread that were open when it began
};

/// What a thread did, in the order in which its spans began.
struct ThreadSpans {
  const char* name;
  std::vector<SpanRecord> spans;
};

/// What is recorded at present, by all threads of the process: nothing, as at the start; what is
/// rare; everything.
enum class Recording { kOff, kRare, kAll };
void record_spans(Recording what);

/// Calls `begin` and `end` around every span from now on, recorded or not, for a profiler that
/// shows them; null: no longer. No span may be open, and no other thread may begin one.
void observe_spans(void (*begin)(const char* name), void (*end)());

/// What happens at both ends of a thread's op spans, beside the clock's reading: where a device
/// does the ops later, it can mark their places in the device's queue.
class OpMarker {
 public:
  virtual ~OpMarker() = default;
  virtual void begin(SpanRecord& op) = 0;
  virtual void end(SpanRecord& op) noexcept = 0;
};
/// Of the op spans that the calling thread records from now on; null for none. No op may be open.
void mark_ops(OpMarker* marker);

/// Names the calling thread; before its first span. One that ends leaves its place to the next of
/// the same name.
void name_thread(const char* name);

/// All that was recorded so far, the spans that are still open too; from any thread.
std::vector<ThreadSpans> recorded_spans();
/// A thread has memory for a million spans, taken with its first: how many more there were.
std::int64_t lost_spans();
/// Forgets what was recorded. No span may be open on any thread.
void forget_spans();

/// Records the scope that it lives in. Where nothing is recorded it costs a relaxed load; else two
/// readings of the clock. Allocates nothing after a thread's first.
class Span {
 public:
  explicit Span(const char* name, Work work = {})
      : Span(Recording::kAll, name, SpanRecord::Kind::kOp, -1, work) {}
  static Span phase(const char* name, std::int64_t number = -1) {
    return {Recording::kAll, name, SpanRecord::Kind::kPhase, number, {}};
  }
  static Span rare(const char* name, std::int64_t number = -1) {
    return {Recording::kRare, name, SpanRecord::Kind::kRare, number, {}};
  }
  ~Span() {
    if (record_ || observed_) close();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Span(Recording least, const char* name, SpanRecord::Kind kind, std::int64_t number, Work work) {
    if (noticed.load(std::memory_order_relaxed) >= least) open(least, name, kind, number, work);
  }
  void open(Recording least, const char* name, SpanRecord::Kind kind, std::int64_t number,
            Work work);
  void close();

  friend void record_spans(Recording what);
  friend void observe_spans(void (*begin)(const char* name), void (*end)());
  static inline std::atomic<Recording> noticed{Recording::kOff};  ///< recorded or observed
  SpanRecord* record_ = nullptr;
  bool observed_ = false;
};

}  // namespace hgt
