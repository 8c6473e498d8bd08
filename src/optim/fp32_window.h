#pragma once

#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/ops/flat_piece.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Values of the flat layout as floats: fp32 in place; bf16 as a copy, whose changes `write_back`
/// writes, stochastically rounded. Null if there is no tensor.
class Fp32Window {
 public:
  static constexpr std::int64_t kMaxElements = 2048;

  /// The values are those of `part`, a piece or a part of one; it must outlive the window.
  Fp32Window(const Tensor& values, const FlatPiece& part);
  float* data() const { return data_; }
  void write_back(std::uint64_t key, Rounded what) const;

 private:
  Tensor narrow_;
  const FlatPiece& part_;
  std::int64_t count_ = 0;
  float* data_ = nullptr;
  float copy_[kMaxElements];
};

}  // namespace hgt
