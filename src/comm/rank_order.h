#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace hgt {

/// Sums out[i] = operand(0)[i] + operand(1)[i] + ... in the order of the ranks. An operand may be
/// `out` itself.
template <class T, class Operand>
void sum_in_rank_order(std::span<T> out, int ranks, const Operand& operand) {
  std::array<T, 1024> sums;
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
