#pragma once

#include <memory>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// The stream of a program that computes alone, and what is behind it: the CPU's threads, and with
/// `cuda` a queue of the first GPU.
class ComputeStream {
 public:
  /// Threads as ThreadPool takes them; Error(kDevice) where there is no usable GPU.
  ComputeStream(bool cuda, int threads, bool deterministic = false)
      : pool_(threads, deterministic),
        queue_(cuda ? std::make_unique<CudaQueue>(Device::cuda(0)) : nullptr) {}

  Stream get() { return queue_ ? Stream(*queue_) : Stream(pool_); }
  ThreadPool& pool() { return pool_; }  ///< wherever the stream runs

 private:
  ThreadPool pool_;
  const std::unique_ptr<CudaQueue> queue_;
};

}  // namespace hgt
