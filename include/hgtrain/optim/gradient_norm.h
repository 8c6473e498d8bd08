#pragma once

#include <cstdint>
#include <span>

#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// L2 norms of flat fp32 buffers, squares summed in fp64 in an order that depends on the buffer's
/// size alone. Not finite exactly where an element is not finite.
class GradientNorm {
 public:
  explicit GradientNorm(Stream stream);
  /// Waits for the stream: all that was queued on it is done when this returns.
  double of(const Tensor& values) const;

 private:
  Stream stream_;
  Buffer squares_;  ///< one fp64, on the device
};

/// What gradients of norm `norm` are multiplied with so that theirs is at most `clip`:
/// min(1, clip / (norm + 1e-6)), as PyTorch and DeepSpeed have it; 1 where `clip` is 0.
double clip_factor(double norm, double clip);

/// Index of the first element that is infinite or not a number; -1 where there is none.
std::int64_t first_non_finite(std::span<const float> values);

}  // namespace hgt
