#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Functions of one float that the compiler turns into vector code inside loops (no branches, no
// calls, no tables). Relative errors are about 2e-7, checked in tests/ops/activation_test.cpp.
// NaN in, NaN out.

namespace hgt {

/// e^x; 0 if x < -87.33 (denormals), the largest float if x > 88.72.
[[gnu::always_inline]] inline float exp_f32(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693145752f, kLn2Low = 1.42860677e-6f;
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.37514079e-3f;
  p = p * r + 8.36891634e-3f;
  p = p * r + 4.16695331e-2f;
  p = p * r + 1.66665185e-1f;
  p = p * r + 4.99999886e-1f;
  p = p * r * r + r + 1.0f;
  const float y = std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                                       (std::bit_cast<std::uint32_t>(shifted) << 23));
  const float low = x < -87.33f ? 0.0f : y;
  return x > 88.72f ? 3.40282347e38f : low;
}

/// The natural logarithm of a positive, normal number.
[[gnu::always_inline]] inline float log_f32(float x) {
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)), and log(m) = 2 atanh((m - 1) / (m + 1)).
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - 0x3f3504f3u;
  const float e = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x7fffffu) + 0x3f3504f3u);
  const float t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
  float p = 2.0f / 9;
  p = p * t2 + 2.0f / 7;
  p = p * t2 + 2.0f / 5;
  p = p * t2 + 2.0f / 3;
  return e * 0.693147181f + (p * t2 * t + 2.0f * t);
}

/// Sine and cosine of `word` / 2^32 turns, each to about 1e-7 of 1.
struct SinCos {
  float sin, cos;
};
[[gnu::always_inline]] inline SinCos sin_cos_of_turns(std::uint32_t word) {
  // The nearest quarter turn, and the rest: [-1/8, 1/8) turns.
  const std::uint32_t quarter = (word + 0x20000000u) >> 30;
  const float x = static_cast<float>(static_cast<std::int32_t>(word - (quarter << 30))) *
                  1.46291808e-9f;  // 2 pi / 2^32
  const float x2 = x * x;
  float s = 2.75573192e-6f;
  s = s * x2 - 1.98412698e-4f;
  s = s * x2 + 8.33333333e-3f;
  s = s * x2 - 1.66666667e-1f;
  s = s * x2 * x + x;
  float c = 2.48015873e-5f;
  c = c * x2 - 1.38888889e-3f;
  c = c * x2 + 4.16666667e-2f;
  c = c * x2 - 0.5f;
  c = c * x2 + 1.0f;
  const float sin = (quarter & 1) != 0 ? c : s, cos = (quarter & 1) != 0 ? s : c;
  return {(quarter & 2) != 0 ? -sin : sin, ((quarter + 1) & 2) != 0 ? -cos : cos};
}

[[gnu::always_inline]] inline float sigmoid_f32(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

/// The standard normal distribution function and its density. The tail is t P(t) density(x) with
/// t = 1 / (1 + 0.4 |x| / sqrt(2)): the form of Abramowitz & Stegun 7.1.26, coefficients fitted to
/// the relative error over |x| < 13.
struct Normal {
  float cdf, density;
};
[[gnu::always_inline]] inline Normal normal_f32(float x) {
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
