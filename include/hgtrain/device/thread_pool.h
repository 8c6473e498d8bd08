#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

#include "hgtrain/device/buffer.h"

namespace hgt {

/// The one thread pool of a process. The caller of parallel_for is its thread 0.
///
/// Every thread of it, the caller's included, flushes denormals to zero and calls oneDNN
/// single-threaded. Between two calls the workers spin for some microseconds, then sleep. Calls
/// come from one thread at a time and do not nest.
class ThreadPool {
 public:
  /// `threads` >= 1, the caller's own included: Error(kConfig) otherwise, Error(kDevice) where the
  /// system refuses a thread.
  explicit ThreadPool(int threads, bool deterministic = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(scratch_.size()); }
  /// Whether an op must have the same bits for any number of threads, where that costs time.
  bool is_deterministic() const { return deterministic_; }

  /// Calls fn(begin, end, part) for every part of [0, n), one for each thread, and returns when all
  /// are done. The parts are contiguous, in order, their sizes differ by at most one: the same for
  /// the same n and number of threads. A thread that the system keeps waiting does not hold up the
  /// others: they do its part. The first exception, in the order of parts, is thrown here.
  template <class Fn>
  void parallel_for(std::int64_t n, const Fn& fn) {
    run({n, &fn, [](const void* f, std::int64_t begin, std::int64_t end, int part) {
           (*static_cast<const Fn*>(f))(begin, end, part);
         }});
  }

  /// Memory of one part that lives until the next call for the same part: for temporaries of a
  /// kernel. Grows to the largest request and stays.
  float* scratch(int part, std::int64_t floats);
  /// Bytes held by all parts' scratch.
  std::int64_t scratch_bytes() const;

 private:
  struct Job {
    std::int64_t n = 0;
    const void* fn = nullptr;
    void (*call)(const void* fn, std::int64_t begin, std::int64_t end, int part) = nullptr;
  };
  /// The last round in which somebody took a part on; alone on its cache line.
  struct alignas(64) Claim {
    std::atomic<std::uint32_t> round{0};
  };
  void run(const Job& job);
  void take_parts(int first, std::uint32_t round) noexcept;
  void run_part(int part) noexcept;
  void work(int thread);
  void stop();

  const bool deterministic_;
  Job job_;
  std::atomic<std::uint32_t> round_{0};  ///< counts jobs; workers wait for it to change
  std::atomic<int> running_{0};          ///< parts that are not finished
  std::vector<Claim> claims_;            ///< of each part
  std::atomic<bool> stop_{false};
  std::vector<Buffer> scratch_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> workers_;
};

/// Makes the calling thread one that computes: denormals are flushed to zero (an optimizer pass
/// over denormals is a hundred times slower) and OpenMP inside libraries uses this thread alone.
void prepare_compute_thread();

}  // namespace hgt
