#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

#include "hgtrain/base/element.h"

namespace hgt {

/// Calls fn with the values of a sum, as elements of their type: fp32, fp64, bf16 or fp16.
template <class Fn>
void visit_values(std::span<std::byte> values, DType type, const Fn& fn) {
  const auto as = [&]<class T>(T) {
    fn(std::span(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)));
  };
  type == DType::kF64 ? as(double()) : visit_element(type, as);
}

/// Sums out[i] = operand(0)[i] + operand(1)[i] + ... in the order of the ranks; 16-bit values in
/// fp32, rounded once. An operand may be `out` itself.
template <class T, class Operand>
void sum_in_rank_order(std::span<T> out, int ranks, const Operand& operand) {
  using Sum = std::conditional_t<sizeof(T) == 2, float, T>;
  std::array<Sum, 1024> sums;
  for (std::size_t at = 0; at < out.size(); at += sums.size()) {
    const std::size_t n = std::min(sums.size(), out.size() - at);
    std::copy_n(operand(0) + at, n, sums.data());
    for (int rank = 1; rank < ranks; ++rank) {
      const T* const theirs = operand(rank) + at;
      for (std::size_t i = 0; i < n; ++i) sums[i] += theirs[i];
    }
    std::copy_n(sums.data(), n, out.data() + at);
  }
}

}  // namespace hgt
