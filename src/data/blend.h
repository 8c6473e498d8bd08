#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hgt {

/// Positions of an epoch dealt out to files in fixed proportions, evenly interleaved.
///
/// In an epoch of n positions, file i gets counts()[i] draws. Draw k of file i is due at time
/// (2k + 1) / (2 counts[i]) of the epoch; positions take the draws in order of time, ties by file.
/// A pure function of the position; its time is O(files^2 log n).
class Blend {
 public:
  struct Draw {
    std::size_t file;
    std::int64_t index;  ///< draws of this file before it in the epoch
  };
  /// Shares by weight (all > 0), rounded by largest remainder, at least one each: n >=
  /// weights.size().
  Blend(std::span<const double> weights, std::int64_t n);

  const std::vector<std::int64_t>& counts() const noexcept { return counts_; }
  Draw at(std::int64_t position) const;  ///< position in [0, n)

 private:
  std::int64_t rank(std::size_t file, std::int64_t draw) const;
  std::vector<std::int64_t> counts_;
};

}  // namespace hgt
