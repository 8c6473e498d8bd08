#pragma once

#include <bit>
#include <cstdint>

namespace hgt {

/// The two 16-bit floating-point formats as elements of arrays: they read as floats, and floats
/// assigned to them are rounded to the nearest, ties to even. They use only branch-free integer and
/// float operations, so that compilers vectorize loops over them. Results are right even if the CPU
/// flushes denormal floats to zero.

/// bfloat16: a float's upper half.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float x) : bits(round(x)) {}
  BFloat16& operator=(float x) {
    bits = round(x);
    return *this;
  }
  operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  BFloat16& operator+=(float x) { return *this = *this + x; }
  BFloat16& operator*=(float x) { return *this = *this * x; }

 private:
  static std::uint16_t round(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    const bool nan = (u & 0x7fffffff) > 0x7f800000;
    return static_cast<std::uint16_t>(nan ? (u >> 16) | 0x40 : rounded);
  }
};

/// IEEE 754 binary16: what is beyond 65504 becomes infinite, denormals are kept.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  Half(float x) : bits(round(x)) {}
  Half& operator=(float x) {
    bits = round(x);
    return *this;
  }
  operator float() const { return value(bits); }
  Half& operator+=(float x) { return *this = *this + x; }
  Half& operator*=(float x) { return *this = *this * x; }

 private:
  static constexpr std::uint32_t kExponentShift = 13;  ///< mantissa bits a float has more

  /// A denormal's mantissa gets the smallest normal exponent, whose value is subtracted again.
  static float value(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = (bits & 0x7fffu)
                                                                   << kExponentShift;
    const std::uint32_t exponent = magnitude & 0x0f800000;
    const std::uint32_t normal = magnitude + (exponent == 0x0f800000 ? 224u << 23 : 112u << 23);
    const float denormal = std::bit_cast<float>(magnitude + (113u << 23)) -
                           std::bit_cast<float>(std::uint32_t{113} << 23);
    const std::uint32_t out = exponent == 0 ? std::bit_cast<std::uint32_t>(denormal) : normal;
    return std::bit_cast<float>(out | sign);
  }

  /// Denormals: adding 0.5 leaves the rounded mantissa in the low bits.
  static std::uint16_t round(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    const std::uint32_t normal =
        (magnitude - (112u << 23) + 0xfff + ((magnitude >> kExponentShift) & 1)) >> kExponentShift;
    const std::uint32_t denormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
        std::bit_cast<std::uint32_t>(0.5f);
    std::uint32_t out = magnitude < (113u << 23) ? denormal : normal;
    out = magnitude >= 0x477ff000 ? 0x7c00 : out;  // 65520 and more
    out = magnitude > 0x7f800000 ? 0x7e00 : out;   // NaN
    return static_cast<std::uint16_t>(out | sign);
  }
};

}  // namespace hgt
