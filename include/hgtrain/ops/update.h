#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// One update of the optimizer, in memory of the stream's device, so that a step waits for nothing:
/// the host sends the first part before, `prepare_update` writes the second.
struct Update {
  double loss_scale = 1;           ///< what the gradients are multiplied with
  double clip = 0;                 ///< highest norm; 0: none
  double tokens = 1;               ///< of the whole batch
  std::uint64_t rounding_key = 0;  ///< base/stochastic_rounding.h, where parameters are bf16
  float lr, weight_decay;          ///< Lamb's lr has the bias correction in it
  float beta1, beta2, eps;
  float taken1, taken2;                 ///< 1 - beta, rounded once
  float inverse_bc1, inverse_sqrt_bc2;  ///< of the bias correction, 1 without
  float momentum, gradient_share;       ///< of SGD: the share is 1 - dampening, at first 1
  std::int32_t stops;  ///< 1: behind a step that is not finite no later one changes anything either

  double loss;            ///< mean over the tokens
  double norm;            ///< of the gradients, without the loss scale
  float gradient_factor;  ///< min(1, clip / (norm + 1e-6)) / loss_scale, as PyTorch and DeepSpeed
  std::int32_t skip;      ///< 1: loss or norm are not finite, and the update changes nothing
  std::int32_t stopped;   ///< 1 from the first skip on, where `stops`; 0 before the first update
};

/// Bytes of the first part.
inline constexpr std::int64_t kUpdateFromHost = offsetof(Update, loss);

/// Writes the second part of the update.
///
///   losses   [M]  fp64: sums over the tokens of micro-batches, added in order
///   squares  [1]  fp64: sum of the squares of all gradients, times the loss scale squared
void prepare_update(const Tensor& losses, const Tensor& squares, Update* update, Stream stream);

}  // namespace hgt
