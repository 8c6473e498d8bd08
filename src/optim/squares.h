#pragma once

#include <cstdint>

namespace hgt {

/// The sum of squares of value_at(0), ..., value_at(count - 1), in fp64; `count` decides the order.
template <class ValueAt>
double sum_of_squares(std::int64_t count, const ValueAt& value_at) {
  constexpr std::int64_t kLanes =
      32;  // independent sums, so that the loop is vectorised as written
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
#pragma omp simd
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const double x = value_at(i + lane);
      lanes[lane] += x * x;
    }
  for (; i < count; ++i) {
    const double x = value_at(i);
    lanes[0] += x * x;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace hgt
