#pragma once

#include <cstddef>
#include <cstring>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/device.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// Where an op runs: a non-owning value. On the CPU the pool whose threads do the work, and the op
/// has finished when it returns; on a CUDA device the queue it is added to, and it returns at once.
class Stream {
 public:
  Stream(ThreadPool& pool) : pool_(&pool) {}
  Stream(const CudaQueue& queue) : queue_(&queue) {}

  Device device() const { return queue_ ? queue_->device() : Device::cpu(); }
  ThreadPool& pool() const { return *pool_; }         ///< where the device is the CPU
  const CudaQueue& queue() const { return *queue_; }  ///< where it is not

  /// Between host memory and the device's, in order with the ops. On the CPU it is done at once.
  void copy(void* to, const void* from, std::size_t bytes) const {
    if (queue_)
      queue_->copy(to, from, bytes);
    else if (bytes > 0)
      std::memcpy(to, from, bytes);
  }
  /// `rows` rows of `row_bytes`, that lie `to_pitch` and `from_pitch` bytes apart; likewise.
  void copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                 std::size_t row_bytes, std::size_t rows) const {
    if (queue_) return queue_->copy_rows(to, to_pitch, from, from_pitch, row_bytes, rows);
    for (std::size_t i = 0; i < rows; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch,
                  static_cast<const std::byte*>(from) + i * from_pitch, row_bytes);
  }
  /// Blocks until all that was queued is done.
  void synchronize() const {
    if (queue_) queue_->synchronize();
  }

 private:
  ThreadPool* pool_ = nullptr;
  const CudaQueue* queue_ = nullptr;
};

}  // namespace hgt
