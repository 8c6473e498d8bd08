#pragma once

#include <string>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {

struct Config;

/// From now on, the queue computes attention as the config asks, within the memory that the job's
/// plan has for that. Returns which code computes it, for logs: "attention backend: cuDNN 9.19.0",
/// or "attention backend: own kernels" and the reason in brackets.
std::string use_attention(const Config& config, const CudaQueue& queue);

}  // namespace hgt
