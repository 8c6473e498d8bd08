#pragma once

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// Error(kDevice) where the job takes more than is free on the queue's GPU: what it asks, by kind,
/// what is free, and the largest micro-batch that fits. Nothing has been allocated by then. Returns
/// the bytes that are free.
std::int64_t require_memory(const Config& config, const CudaQueue& queue);

/// Where the error says that the device is out of memory all the same, as others took some: adds
/// the largest micro-batch that fits `free_bytes`, and is smaller.
void add_smaller_batch(Error& error, const Config& config, std::int64_t free_bytes);

}  // namespace hgt
