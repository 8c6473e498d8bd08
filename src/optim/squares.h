#pragma once

#include <cstdint>

namespace hgt {

/// Independent sums, so that the loop is vectorised as written.
inline constexpr std::int64_t kSquareLanes = 32;

/// The sum of squares of value_at(0), ..., value_at(count - 1), in fp64; `count` decides the order.
/// Before each kSquareLanes values but the last few, fetch(i) is called with the first one's
/// number.
template <class ValueAt, class Fetch>
double sum_of_squares(std::int64_t count, const ValueAt& value_at, const Fetch& fetch) {
  double lanes[kSquareLanes] = {};
  std::int64_t i = 0;
  for (; i + kSquareLanes <= count; i += kSquareLanes) {
    fetch(i);
#pragma omp simd
    for (std::int64_t lane = 0; lane < kSquareLanes; ++lane) {
      const double x = value_at(i + lane);
      lanes[lane] += x * x;
    }
  }
  for (; i < count; ++i) {
    const double x = value_at(i);
    lanes[0] += x * x;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <class ValueAt>
double sum_of_squares(std::int64_t count, const ValueAt& value_at) {
  return sum_of_squares(count, value_at, [](std::int64_t) {});
}

}  // namespace hgt
