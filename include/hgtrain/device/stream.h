#pragma once

#include <cstddef>
#include <cstring>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/device.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// Where an op runs; does not own it. On the CPU: a pool whose threads do the work before the op
/// returns. On a CUDA device: a queue that the op is added to before it returns.
class Stream {
 public:
  Stream(ThreadPool& pool) : pool_(&pool) {}
  Stream(const CudaQueue& queue) : queue_(&queue) {}

  Device device() const { return queue_ ? queue_->device() : Device::cpu(); }
  ThreadPool& pool() const { return *pool_; }         ///< if the device is the CPU
  const CudaQueue& queue() const { return *queue_; }  ///< if it is a GPU

  /// Copies between host and device memory, in order with the ops. On the CPU it is done on return.
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (queue_)
      queue_->copy(to, from, bytes);
    else if (bytes > 0)
      std::memcpy(to, from, bytes);
  }
  /// Likewise for rows of `row_bytes` bytes that lie `to_pitch` and `from_pitch` bytes apart.
  void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t row_bytes, std::size_t rows) const {
    if (queue_) return queue_->copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                  static_cast<const std::byte*>(from) + i * from_pitch, row_bytes);
  }
  /// Blocks until all queued work is done.
  void synchronize() const {
    if (queue_) queue_->synchronize();
  }

 private:
  ThreadPool* pool_ = nullptr;
  const CudaQueue* queue_ = nullptr;
};

}  // namespace hgt
