#pragma once

#include "hgtrain/device/device.h"
#include "hgtrain/device/thread_pool.h"

namespace hgt {

/// Where an op runs: a non-owning value. On the CPU the pool whose threads do the work, and the op
/// has finished when it returns; on a CUDA device work is queued.
class Stream {
 public:
  explicit Stream(ThreadPool& pool) : pool_(&pool) {}
  Device device() const { return Device::cpu(); }
  ThreadPool& pool() const { return *pool_; }

 private:
  ThreadPool* pool_;
};

}  // namespace hgt
