#pragma once

#include "cuda_runtime.h"

namespace hgt::cuda {

inline float exp2_or_zero(float x) {
  const float out = exp2f(x);
  return out < 1.17549435e-38f ? 0.0f : out;  // of NaN: NaN
}

}  // namespace hgt::cuda
