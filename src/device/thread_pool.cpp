#include "hgtrain/device/thread_pool.h"

#include <algorithm>
#include <omp.h>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Waits until `value` is no longer `old`: spins for some microseconds (a training step is a
/// thousand short jobs), then sleeps.
template <class T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < 2000; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

void prepare_compute_thread() {
  thread_local bool prepared = false;
  if (prepared) return;
  prepared = true;
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  std::uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("msr fpcr, %0" : : "r"(control | (std::uint64_t{1} << 24)));
#endif
  omp_set_num_threads(1);  // only for parallel regions that this thread enters
}

ThreadPool::ThreadPool(int threads, bool deterministic)
    : deterministic_(deterministic), claims_(static_cast<std::size_t>(std::max(threads, 0))) {
  if (threads < 1)
    throw Error(ErrorKind::kConfig, fmt::format("a pool of {} threads cannot compute", threads),
                "use 1 thread or more");
  scratch_.resize(static_cast<std::size_t>(threads));
  errors_.resize(static_cast<std::size_t>(threads));
  try {
    for (int thread = 1; thread < threads; ++thread)
      workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& e) {
    stop();
    throw Error(ErrorKind::kDevice,
                fmt::format("the system refused to start {} threads: {}", threads, e.what()),
                "use fewer threads, or raise the limit on processes (ulimit -u)");
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  prepare_compute_thread();
  job_ = job;
  running_.store(threads(), std::memory_order_relaxed);
  const std::uint32_t round = round_.fetch_add(1, std::memory_order_release) + 1;
  round_.notify_all();
  take_parts(0, round);
  for (int left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire))
    wait_while_equal(running_, left);
  for (std::exception_ptr& error : errors_)
    if (error) {
      const std::exception_ptr first = error;
      std::fill(errors_.begin(), errors_.end(), nullptr);
      std::rethrow_exception(first);
    }
}

/// Does the thread's own part, whose data are in its cache, then parts that no thread has taken. If
/// the round is over, nothing is left to take, and another round's job is not touched.
void ThreadPool::take_parts(int first, std::uint32_t round) noexcept {
  for (int i = 0; i < threads(); ++i) {
    const int part = (first + i) % threads();
    std::uint32_t before = round - 1;
    if (!claims_[static_cast<std::size_t>(part)].round.compare_exchange_strong(
            before, round, std::memory_order_acq_rel))
      continue;
    run_part(part);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::run_part(int part) noexcept {
  const std::int64_t begin = job_.n * part / threads();
  const std::int64_t end = job_.n * (part + 1) / threads();
  if (begin == end) return;
  try {
    job_.call(job_.fn, begin, end, part);
  } catch (...) {
    errors_[static_cast<std::size_t>(part)] = std::current_exception();
  }
}

void ThreadPool::work(int thread) {
  prepare_compute_thread();
  for (std::uint32_t round = 0;;) {
    wait_while_equal(round_, round);
    if (stop_) return;
    round = round_.load(std::memory_order_acquire);
    take_parts(thread, round);
  }
}

float* ThreadPool::scratch(int part, std::int64_t floats) {
  Buffer& buffer = scratch_[static_cast<std::size_t>(part)];
  const std::int64_t bytes = floats * static_cast<std::int64_t>(sizeof(float));
  if (buffer.bytes() < bytes) buffer = Buffer("cpu scratch", bytes);
  return static_cast<float*>(buffer.data());
}

std::int64_t ThreadPool::scratch_bytes() const {
  std::int64_t sum = 0;
  for (const Buffer& buffer : scratch_) sum += buffer.bytes();
  return sum;
}

}  // namespace hgt
