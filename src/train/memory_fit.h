#pragma once

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// Error(kDevice) where the job takes more than is free on the queue's GPU: what it asks, by kind,
/// what is free, and the largest micro-batch that fits. Nothing has been allocated by then.
void require_memory(const Config& config, const CudaQueue& queue);

/// Where the error says that the device is out of memory all the same, as others took some: adds
/// the largest micro-batch that fits what is free and what the job holds, and is smaller.
void add_smaller_batch(Error& error, const Config& config, const CudaQueue& queue);

}  // namespace hgt
