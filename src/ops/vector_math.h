#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Functions of one float that the compiler turns into vector code inside loops (no branches, no
// calls, no tables). Relative errors are about 2e-7, checked in tests/ops/activation_test.cpp.
// NaN in, NaN out.

namespace hgt {

/// e^x; 0 where x < -87.33 (denormals), the largest float above 88.72.
inline float exp_f32(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = x < -87.33f ? -87.33f : x;
  x = x > 88.72f ? 88.72f : x;
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.37514079e-3f;
  p = p * r + 8.36891634e-3f;
  p = p * r + 4.16695331e-2f;
  p = p * r + 1.66665185e-1f;
  p = p * r + 4.99999886e-1f;
  p = p * r * r + r + 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

inline float sigmoid_f32(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

/// The standard normal distribution function and its density. The tail is t P(t) density(x) with
/// t = 1 / (1 + 0.4 |x| / sqrt(2)): the form of Abramowitz & Stegun 7.1.26, coefficients fitted to
/// the relative error over |x| < 13.
struct Normal {
  float cdf, density;
};
inline Normal normal_f32(float x) {
  const float z = std::fabs(x) * 0.707106781f;
  const float t = 1.0f / (1.0f + 0.4f * z);
  const float e = exp_f32(-0.5f * x * x);
  float p = -0.0314254247f;
  p = p * t + 0.207837473f;
  p = p * t - 0.521622143f;
  p = p * t + 0.577459782f;
  p = p * t - 0.30900707f;
  p = p * t + 0.285116466f;
  p = p * t + 0.125227009f;
  p = p * t + 0.215861378f;
  p = p * t + 0.224839916f;
  p = p * t + 0.225712619f;
  const float tail = 0.5f * t * p * e;
  return {x < 0 ? tail : 1.0f - tail, 0.398942280f * e};
}

}  // namespace hgt
