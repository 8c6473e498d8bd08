#pragma once

#include <string>

#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt {

/// From now on, cuDNN computes attention (hgtrain/ops/attention.h) in bf16 and fp16 on the queue if
/// it supports the shape. Other attention, and attention on queues without this call, runs in
/// kernels of our own. Both are within rounding of each other, and deterministic unless the options
/// say otherwise. Returns a line for a log: "attention backend: cuDNN 9.19.0", or "own kernels" and
/// the reason in brackets, if this build or this machine has no cuDNN or the device is too old for
/// it.
std::string use_cudnn(const CudaQueue& queue, const CudnnOptions& options = {});

}  // namespace hgt
