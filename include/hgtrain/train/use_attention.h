#pragma once

#include <string>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {

struct Config;

/// From now on, the queue does attention as the config asks, with the memory that its plan has for
/// that. Returns which code computes it, for logs: "attention backend: cuDNN 9.19.0", or "attention
/// backend: own kernels" and the reason in brackets.
std::string use_attention(const Config& config, const CudaQueue& queue);

}  // namespace hgt
