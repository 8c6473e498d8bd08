#pragma once

#include <memory>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// The stream of a program that is its only rank, with what it runs on: the CPU's threads and, with
/// `cuda`, a queue of the first GPU.
class ComputeStream {
 public:
  /// `threads` is as for ThreadPool. Error(kDevice) if `cuda` is set and there is no usable GPU.
  ComputeStream(bool cuda, int threads, bool deterministic = false)
      : pool_(threads, deterministic),
        queue_(cuda ? std::make_unique<CudaQueue>(Device::cuda(0)) : nullptr) {}

  Stream get() { return queue_ ? Stream(*queue_) : Stream(pool_); }
  ThreadPool& pool() { return pool_; }  ///< also if the stream runs on the GPU

 private:
  ThreadPool pool_;
  const std::unique_ptr<CudaQueue> queue_;
};

}  // namespace hgt
