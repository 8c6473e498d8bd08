#pragma once

#include <cstddef>
#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// One update of the optimizer. It lies in memory of the stream's device, so that a step waits for
/// nothing: the host sends the first part beforehand, `prepare_update` writes the second, which the
/// next one reads.
struct Update {
  double loss_scale = 1;           ///< the factor of the gradients
  double clip = 0;                 ///< highest norm of the gradients; 0: no clipping
  double tokens = 1;               ///< number of tokens in the whole batch
  std::uint64_t rounding_key = 0;  ///< for bf16 parameters (base/stochastic_rounding.h)
  float lr = 0, weight_decay = 0;  ///< lr includes the bias correction for Lamb
  float beta1 = 0, beta2 = 0, eps = 0;
  float one_minus_beta1 = 0, one_minus_beta2 = 0;  ///< 1 - beta, rounded once
  float inverse_bc1 = 1, inverse_sqrt_bc2 = 1;     ///< bias correction; 1 without it
  float momentum = 0, one_minus_dampening = 1;     ///< SGD's; the latter is 1 in the first update
  /// 1: after a step that is not finite, later ones change nothing either
  std::int32_t halt_on_nonfinite = 0;

  double loss = 0;  ///< mean over the tokens
  double norm = 0;  ///< of the gradients, without the loss scale
  /// The clip factor / loss_scale. The clip factor is min(1, clip / (norm + 1e-6)), as in PyTorch
  /// and DeepSpeed, or 1 without clipping.
  float gradient_factor = 0;
  std::int32_t skip = 0;  ///< 1: loss or norm is not finite, and the update changes nothing
  /// 1 from the first skip on if `halt_on_nonfinite`; 0 before the first update
  std::int32_t halted = 0;
};

/// The size of the first part.
inline constexpr std::int64_t kUpdateFromHostBytes = offsetof(Update, loss);

/// Writes the second part of the update.
///
///   losses   [M]  fp64: sums over the tokens of micro-batches, added in order
///   squares  [K]  fp64: parts of the sum of the squares of all gradients, times the loss scale
///                 squared; added in an order that follows from K and the kind of device alone
void prepare_update(const Tensor& losses, const Tensor& squares, Update* update, Stream stream);

}  // namespace hgt
