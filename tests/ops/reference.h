#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hgtrain/base/philox.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

// Ops are compared with plain loops in double, and backwards with finite differences of those
// loops.

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Two standard normal numbers from two words (Box-Muller).
inline std::array<double, 2> normal2(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(a) + 0.5) * 0x1p-32));
  const double phi = 6.283185307179586 * (static_cast<double>(b) * 0x1p-32);
  return {radius * std::cos(phi), radius * std::sin(phi)};
}

/// Normal numbers, times `scale`.
inline Floats random_floats(std::int64_t count, std::uint64_t seed, float scale = 1) {
  Floats out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto words = hgt::philox(seed, 0, i);
    out[i] = scale * static_cast<float>(normal2(words[0], words[1])[0]);
  }
  return out;
}

/// The same matrix stored as its transpose.
inline Floats transposed(const Floats& x, std::int64_t rows, std::int64_t columns) {
  Floats out(x.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      out[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
  return out;
}

inline Doubles doubles(const Floats& x) {
  return {x.begin(), x.end()};
}

/// The largest difference, in units of the largest expected value.
inline double error_of(std::span<const float> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double largest = 1e-30, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double d = std::abs(static_cast<double>(actual[i]) - expected[i]);
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
  }
  return difference / largest;
}

/// The gradient of sum(weights * f(x)), by central differences.
inline Doubles numeric_gradient(const std::function<Doubles(const Doubles&)>& f, Doubles x,
                                const Floats& weights) {
  const auto objective = [&] {
    const Doubles y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(weights[i]);
    return sum;
  };
  Doubles out;
  for (double& value : x) {
    const double before = value, step = 1e-5;
    value = before + step;
    const double high = objective();
    value = before - step;
    const double low = objective();
    value = before;
    out.push_back((high - low) / (2 * step));
  }
  return out;
}

inline Doubles sum_of(const Floats& a, Doubles b) {
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += static_cast<double>(a[i]);
  return b;
}

inline hgt::Tensor tensor(Floats& x, std::initializer_list<std::int64_t> shape) {
  return hgt::Tensor(x.data(), shape);
}
