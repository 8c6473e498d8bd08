#pragma once

#include "hgtrain/base/error.h"
#include "hgtrain/device/cuda_queue.h"

namespace hgt {

struct Config;

/// The memory of the queue's GPU that the job's plan may count on (HardwareConfig::gpu_bytes): all
/// of it, even if other processes use some, so that the plan is the same for every run on such a
/// GPU. 0 if workers share the GPU, or if that plan would take more than is free. Call it before
/// anything is allocated.
std::int64_t plannable_bytes(Config config, const CudaQueue& queue);

/// Error(kDevice) if the job takes more than is free on the queue's GPU. It says what the job asks
/// for, by kind, what is free, and the largest micro-batch that fits. Call it before anything is
/// allocated.
void require_memory(const Config& config, const CudaQueue& queue);

/// If the error says that the device is out of memory although require_memory() passed, because
/// other processes took some, adds the largest smaller micro-batch that fits into what is free and
/// what the job holds.
void add_smaller_batch(Error& error, const Config& config, const CudaQueue& queue);

}  // namespace hgt
