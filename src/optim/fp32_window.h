#pragma once

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Values of the flat layout as floats: fp32 in place; bf16 as a copy, whose changes `write_back`
/// writes, stochastically rounded. Null if there is no tensor.
class Fp32Window {
 public:
  static constexpr std::int64_t kMaxElements = 2048;

  /// `first` is the place of the first value in the flat layout, a multiple of kRoundedByCounter.
  Fp32Window(const Tensor& values, std::int64_t first);
  float* data() const { return data_; }
  void write_back(std::uint64_t key, Rounded what) const;

 private:
  Tensor narrow_;
  std::int64_t first_, count_ = 0;
  float* data_ = nullptr;
  float copy_[kMaxElements];
};

}  // namespace hgt
