#pragma once

#include <cstdint>

#include "hgtrain/config/config.h"
#include "hgtrain/ops/update.h"

namespace hgt {

/// Updates `count` elements of one group of weight decay. `s1` and `s2` are the optimizer's state,
/// null where it has fewer.
using Kernel = void (*)(const Update&, float* __restrict p, const float* __restrict g,
                        float* __restrict s1, float* __restrict s2, std::int64_t count);

/// That of an optimizer whose elements go each by itself: all of Optimizer's but Lamb.
Kernel elementwise_kernel(const OptimizerConfig& config);

}  // namespace hgt
