#pragma once

#include <cstdint>

namespace hgt {

struct Config;

/// The memory of a GPU that the driver takes for a process: 300 to 616 MiB were reported
/// (pytorch/pytorch#20532, LMCache/LMCache#4019).
inline constexpr std::int64_t kGpuContextBytes = std::int64_t{640} << 20;

/// Temporaries of a GPU that may have any of several sizes. The larger they are, the fewer passes a
/// step makes over its memory and the fewer kernels it launches; beyond some GiB, that gains
/// nothing.
struct GpuScratch {
  std::int64_t logit_rows = 0;  ///< rows of logits that are computed at a time
  /// The most memory that cuDNN's deterministic attention backward may take for its parts.
  std::int64_t attention_part_bytes = 0;
};

/// The sizes in a job's plan. They follow from what the plan with the smallest sizes leaves free of
/// hardware.gpu_bytes: logits get half of that, up to 2 GiB, in equal chunks of a multiple of 128
/// rows; attention gets a quarter, up to 2 GiB. So a job that fits with the smallest sizes fits
/// with these. If gpu_bytes is 0, which says that the GPU is not known, they are the smallest.
GpuScratch gpu_scratch(const Config& config);

}  // namespace hgt
