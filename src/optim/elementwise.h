#pragma once

#include <cstdint>

#include "hgtrain/config/config.h"

namespace hgt {

/// The constants of one update, for one group of weight decay.
struct Update {
  float lr, gradient_factor, weight_decay;
  float beta1, beta2, eps;
  float taken1, taken2;  ///< 1 - beta, rounded once
  float inverse_bc1, inverse_sqrt_bc2;
  float momentum, gradient_share;  ///< of SGD: the share is 1 - dampening, in the first update 1
};

/// Updates `count` elements. `s1` and `s2` are the optimizer's state, null where it has fewer.
using Kernel = void (*)(const Update&, float* __restrict p, const float* __restrict g,
                        float* __restrict s1, float* __restrict s2, std::int64_t count);

/// That of an optimizer whose elements go each by itself: all of Optimizer's but Lamb.
Kernel elementwise_kernel(const OptimizerConfig& config);

}  // namespace hgt
