#include "hgtrain/base/trace.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "hgtrain/base/clock.h"

namespace hgt {
namespace {

constexpr std::size_t kSpansPerThread = std::size_t{1} << 20;

/// The spans of one thread, or of one after the other.
struct ThreadLog {
  explicit ThreadLog(const char* name) : name(name) {}
  const char* const name;
  // Pages that no span was written to take no memory.
  static_assert(std::is_trivially_default_constructible_v<SpanRecord>);
  std::unique_ptr<SpanRecord[]> records =
      std::make_unique_for_overwrite<SpanRecord[]>(kSpansPerThread);
  std::atomic<std::size_t> count{0};  ///< of records whose beginning is written
  int depth = 0;                      ///< spans open now
  bool taken = true;                  ///< by a thread that lives
};

struct ProcessLog {
  std::mutex mutex;
  std::deque<ThreadLog> threads;  ///< guarded; an element never moves
  std::atomic<std::int64_t> lost{0};
};

/// Never destroyed: threads may outlive main.
ProcessLog& process_log() {
  static ProcessLog* const log = new ProcessLog;
  return *log;
}

/// A thread's hold on its log.
struct Lease {
  const char* name = "thread";
  ThreadLog* log = nullptr;
  OpMarker* marker = nullptr;

  ThreadLog& get() {
    if (!log) take();
    return *log;
  }
  void take() {
    ProcessLog& process = process_log();
    const std::lock_guard lock(process.mutex);
    for (ThreadLog& thread : process.threads)
      if (!thread.taken && std::string_view(thread.name) == name) log = &thread;
    if (!log) log = &process.threads.emplace_back(name);
    log->taken = true;
  }
  ~Lease() {
    if (!log) return;
    const std::lock_guard lock(process_log().mutex);
    log->taken = false;
  }
};

thread_local Lease lease;

std::atomic<Recording> recording{Recording::kOff};
void (*observe_begin)(const char* name) = nullptr;
void (*observe_end)() = nullptr;

}  // namespace

void record_spans(Recording what) {
  recording = what;
  Span::noticed = observe_begin ? Recording::kAll : what;
}

void observe_spans(void (*begin)(const char* name), void (*end)()) {
  observe_begin = begin;
  observe_end = end;
  record_spans(recording);
}

void mark_ops(OpMarker* marker) {
  lease.marker = marker;
}

void name_thread(const char* name) {
  lease.name = name;
}

std::vector<ThreadSpans> recorded_spans() {
  ProcessLog& process = process_log();
  const std::lock_guard lock(process.mutex);
  std::vector<ThreadSpans> out;
  for (ThreadLog& thread : process.threads) {
    ThreadSpans& spans = out.emplace_back(ThreadSpans{thread.name, {}});
    for (std::size_t i = 0; i < thread.count.load(std::memory_order_acquire); ++i) {
      SpanRecord& record = thread.records[i];
      const std::int64_t end_ns = std::atomic_ref(record.end_ns).load(std::memory_order_acquire);
      spans.spans.push_back({record.name, record.number, record.begin_ns, end_ns, record.flops,
                             record.bytes, record.kind, record.depth, record.micro});
    }
  }
  return out;
}

std::int64_t lost_spans() {
  return process_log().lost;
}

void forget_spans() {
  ProcessLog& process = process_log();
  const std::lock_guard lock(process.mutex);
  for (ThreadLog& thread : process.threads) thread.count = 0;
  process.lost = 0;
}

void Span::open(Recording level, const char* name, SpanRecord::Kind kind, std::int64_t number,
                int micro, Work work) {
  observed_ = observe_begin != nullptr;
  if (observed_) observe_begin(name);
  if (recording.load(std::memory_order_relaxed) < level) return;
  ThreadLog& log = lease.get();
  const std::size_t at = log.count.load(std::memory_order_relaxed);
  if (at == kSpansPerThread) {
    ++process_log().lost;
    return;
  }
  record_ = &log.records[at];
  *record_ = {name, number, now_ns(), 0, work.flops, work.bytes, kind, log.depth++, micro};
  log.count.store(at + 1, std::memory_order_release);
  if (lease.marker && kind == SpanRecord::Kind::kOp) lease.marker->begin(*record_);
}

void Span::close() {
  if (observed_) observe_end();
  if (!record_) return;
  if (lease.marker && record_->kind == SpanRecord::Kind::kOp) lease.marker->end(*record_);
  std::atomic_ref(record_->end_ns).store(now_ns(), std::memory_order_release);
  --lease.get().depth;
}

}  // namespace hgt
