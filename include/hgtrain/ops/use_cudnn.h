#pragma once

#include <string>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {

/// From now on attention (hgtrain/ops/attention.h) that the queue is given in bf16 or fp16 runs
/// over cuDNN, where cuDNN takes its shape; other attention, and that of a queue this was not
/// called for, runs in kernels of our own. Both are deterministic and within rounding of each
/// other. Returns what a log may say: "attention over cuDNN 9.19.0", or "attention without cuDNN: "
/// and why, where this build or this machine has none or the device is too old for it.
std::string use_cudnn(const CudaQueue& queue);

}  // namespace hgt
