#pragma once

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/device.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// Where an op runs: a non-owning value. On the CPU the pool whose threads do the work, and the op
/// has finished when it returns; on a CUDA device the queue it is added to, and it returns at once.
class Stream {
 public:
  explicit Stream(ThreadPool& pool) : pool_(&pool) {}
  explicit Stream(const CudaQueue& queue) : queue_(&queue) {}

  Device device() const { return queue_ ? queue_->device() : Device::cpu(); }
  ThreadPool& pool() const { return *pool_; }         ///< where the device is the CPU
  const CudaQueue& queue() const { return *queue_; }  ///< where it is not

 private:
  ThreadPool* pool_ = nullptr;
  const CudaQueue* queue_ = nullptr;
};

}  // namespace hgt
