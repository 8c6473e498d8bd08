#pragma once

#include <cstdint>

#include "hgtrain/ops/update.h"

namespace hgt {

struct OptimizerConfig;

/// Updates `count` elements with the same weight decay. `s1` and `s2` are the optimizer's state,
/// null if it has fewer.
using Kernel = void (*)(const Update&, float* __restrict p, const float* __restrict g,
                        float* __restrict s1, float* __restrict s2, std::int64_t count);

/// The update of an optimizer that treats each element alone: all of Optimizer's except Lamb.
Kernel elementwise_kernel(const OptimizerConfig& config);

}  // namespace hgt
