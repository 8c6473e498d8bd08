#pragma once

// Which elements are dropped, for kernels: the numbers of hgtrain/ops/dropout.h.

#include "hgtrain/base/philox.h"
#include "hgtrain/device/cuda_launch.h"
#include "hgtrain/ops/cuda_ops_table.h"

namespace hgt::cuda {

/// The factors of one row's elements: 0 or 1 / (1 - probability). Element e takes word e / 16 % 4
/// of counter e / 64 * 16 + e % 16.
class DropoutRow {
 public:
  __device__ DropoutRow(const DropoutArgs& dropout, std::int64_t row)
      : probability_(dropout.probability), site_(dropout.site) {
    if (probability_ == 0) return;
    key_ = philox_key(dropout.seed, static_cast<std::uint64_t>(dropout.samples->step),
                      static_cast<std::uint64_t>(dropout.samples->first_sample + row));
  }

  /// Whether any elements are dropped.
  __device__ bool any() const { return probability_ != 0; }
  /// The factors of the four elements that share a counter.
  __device__ std::array<float, 4> factors(std::int64_t counter) const {
    if (probability_ == 0) return {1, 1, 1, 1};
    const auto words = philox(key_, site_, static_cast<std::uint64_t>(counter));
    return {factor(words[0]), factor(words[1]), factor(words[2]), factor(words[3])};
  }
  /// The factor of one element.
  __device__ float operator[](std::int64_t element) const {
    if (probability_ == 0) return 1;
    const auto words =
        philox(key_, site_, static_cast<std::uint64_t>(element / 64 * 16 + element % 16));
    const auto word = element / 16 % 4;  // an index would move the words to memory
    return factor(word == 0 ? words[0] : word == 1 ? words[1] : word == 2 ? words[2] : words[3]);
  }

 private:
  __device__ float factor(std::uint32_t word) const {
    return uniform01(word) >= probability_ ? 1.0f / (1.0f - probability_) : 0.0f;
  }
  float probability_;
  std::uint64_t key_ = 0, site_;
};

}  // namespace hgt::cuda
