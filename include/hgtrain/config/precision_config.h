#pragma once

#include <cstdint>

#include "hgtrain/base/dtype.h"

namespace hgt {

/// Sections `fp16` and `bf16`: at most one is enabled.
struct PrecisionConfig {
  bool fp16 = false, bf16 = false;
  // Keys of fp16.
  double loss_scale = 0;  ///< 0: dynamic
  std::int64_t initial_scale_power = 16;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
  // Keys of bf16.
  bool bf16_parameters = false;  ///< without fp32 masters
  bool bf16_state = false;       ///< the optimizer's state, too

  /// The type of weights, activations and matrix products.
  DType compute_dtype() const { return fp16 ? DType::kF16 : bf16 ? DType::kBF16 : DType::kF32; }
  /// The type of the parameters that the optimizer updates.
  DType parameter_dtype() const { return bf16 && bf16_parameters ? DType::kBF16 : DType::kF32; }
  DType state_dtype() const { return bf16 && bf16_state ? DType::kBF16 : DType::kF32; }
};

}  // namespace hgt
