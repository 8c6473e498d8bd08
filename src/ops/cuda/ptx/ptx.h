#pragma once

// Instructions of the device for which CUDA C++ has no function. The emulation has a header of the
// same name in place of this one.

namespace hgt::cuda {

/// 2 to the power of x; 0 if that is less than 2^-126. exp2f also computes such numbers, in three
/// more instructions.
__device__ inline float exp2_or_zero(float x) {
  float out = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

}  // namespace hgt::cuda
