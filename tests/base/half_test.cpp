#include "hgtrain/base/half.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// The value of 16 bits by the formats' definition.
double defined(std::uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const double fraction = mantissa + (exponent ? std::ldexp(1, mantissa_bits) : 0);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - bias - mantissa_bits);
}

template <class T>
T of_bits(int bits) {
  T out;
  out.bits = static_cast<std::uint16_t>(bits);
  return out;
}

/// All 65536 values, their neighbourhood, and the points half way between two of them.
template <class T>
void check_format(int exponent_bits) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const double value = defined(static_cast<std::uint16_t>(bits), exponent_bits);
    const float read = of_bits<T>(bits);
    INFO(bits << " is " << value);
    if (std::isnan(value)) {
      CHECK((std::isnan(read) && std::isnan(static_cast<float>(T(read)))));
      continue;
    }
    REQUIRE(read == value);
    REQUIRE(T(read).bits == bits);
    const double next = defined(static_cast<std::uint16_t>(bits + 1), exponent_bits);
    if (!std::isfinite(next) || !std::isfinite(value)) continue;
    const auto middle = static_cast<float>((value + next) / 2);
    if (middle != (value + next) / 2) continue;  // no float lies there
    REQUIRE(T(middle).bits == bits + (bits & 1));
    REQUIRE(T(std::nextafter(middle, read)).bits == bits);
    REQUIRE(T(std::nextafter(middle, static_cast<float>(next))).bits == bits + 1);
  }
}

}  // namespace

TEST_CASE("every bfloat16 is read exactly and rounded to the nearest") {
  check_format<BFloat16>(8);
  CHECK(std::isinf(static_cast<float>(BFloat16(std::numeric_limits<float>::max()))));
}

TEST_CASE("every half is read exactly and rounded to the nearest") {
  check_format<Half>(5);
  CHECK(Half(65519.0f).bits == 0x7bff);
  CHECK(Half(65520.0f).bits == 0x7c00);
  CHECK(Half(-1e30f).bits == 0xfc00);
  CHECK(Half(-1e-30f).bits == 0x8000);
}
