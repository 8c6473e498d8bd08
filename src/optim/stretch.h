#pragma once

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A part of a flat buffer as floats: fp32 in place; bf16 as a copy, whose changes `put_back`
/// writes, stochastically rounded. Null if there is no tensor.
class Stretch {
 public:
  static constexpr std::int64_t kMost = 2048;  ///< elements

  /// The range must begin at a multiple of kRoundedByCounter.
  Stretch(const Tensor& flat, Range range);
  float* data() const { return data_; }
  void put_back(std::uint64_t key, Rounded what) const;

 private:
  Tensor narrow_;
  Range range_;
  float* data_ = nullptr;
  float copy_[kMost];
};

}  // namespace hgt
