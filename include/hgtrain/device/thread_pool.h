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
/// Each of its threads, including the caller's, flushes denormals to zero and calls oneDNN
/// single-threaded. Between two calls the workers spin for some microseconds, then sleep. Calls
/// must come from one thread at a time and must not nest.
class ThreadPool {
 public:
  /// `threads` counts the caller's own too. Error(kConfig) if it is below 1, Error(kDevice) if the
  /// system refuses a thread.
  explicit ThreadPool(int threads, bool deterministic = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(scratch_.size()); }
  /// Whether an op must have the same bits for any number of threads, even if that costs time.
  bool is_deterministic() const { return deterministic_; }

  /// Calls fn(begin, end, part) for every part of [0, n), one for each thread, and returns when all
  /// are done. The parts are contiguous and in order, and their sizes differ by at most one, so
  /// they follow from n and the number of threads. If the system keeps a thread waiting, the others
  /// do its part. If parts throw, the exception of the first of them is thrown here.
  template <class Fn>
  void parallel_for(std::int64_t n, const Fn& fn) {
    run({n, &fn, [](const void* f, std::int64_t begin, std::int64_t end, int part) {
           (*static_cast<const Fn*>(f))(begin, end, part);
         }});
  }

  /// Memory for temporaries of a kernel in one part; it lives until the next call for the same
  /// part. It grows to the largest request and stays.
  float* scratch(int part, std::int64_t floats);
  /// Bytes held by all parts' scratch.
  std::int64_t scratch_bytes() const;

 private:
  struct Job {
    std::int64_t n = 0;
    const void* fn = nullptr;
    void (*call)(const void* fn, std::int64_t begin, std::int64_t end, int part) = nullptr;
  };
  /// The last round in which a thread took the part; alone on its cache line.
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
  std::vector<Claim> claims_;            ///< one for each part
  std::atomic<bool> stop_{false};
  std::vector<Buffer> scratch_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> workers_;
};

/// Prepares the calling thread to compute: denormals are flushed to zero (an optimizer pass over
/// denormals is a hundred times slower) and OpenMP inside libraries uses this thread alone.
void prepare_compute_thread();

}  // namespace hgt
