#pragma once

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/parallel/range.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A part of a flat buffer as floats: fp32 in place; bf16 as a copy, whose changes `write_back`
/// writes, stochastically rounded. Null if there is no tensor.
class Fp32Window {
 public:
  static constexpr std::int64_t kMaxElements = 2048;

  /// The range must begin at a multiple of kRoundedByCounter.
  Fp32Window(const Tensor& flat, Range range);
  float* data() const { return data_; }
  void write_back(std::uint64_t key, Rounded what) const;

 private:
  Tensor narrow_;
  Range range_;
  float* data_ = nullptr;
  float copy_[kMaxElements];
};

}  // namespace hgt
