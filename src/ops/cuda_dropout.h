#pragma once

// Which elements are dropped, for kernels: the numbers of hgtrain/ops/dropout.h.

#include "hgtrain/base/philox.h"
#include "hgtrain/device/cuda_launch.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cuda {

/// What element `element` of row `row` is multiplied with: 0, or 1 / (1 - probability).
__device__ inline float dropout_factor(const DropoutArgs& dropout, std::int64_t row,
                                       std::int64_t element) {
  if (dropout.probability == 0) return 1;
  const auto key =
      philox(dropout.seed, dropout.step, dropout.first_sample + static_cast<std::uint64_t>(row));
  const auto words = philox(key[0] | std::uint64_t{key[1]} << 32, dropout.site,
                            static_cast<std::uint64_t>(element / 64 * 16 + element % 16));
  const bool kept = uniform01(words[element / 16 % 4]) >= dropout.probability;
  return kept ? 1.0f / (1.0f - dropout.probability) : 0.0f;
}

}  // namespace hgt::cuda
