#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A target that does not count: its loss and gradient are zero (PyTorch's ignore_index).
inline constexpr std::int32_t kIgnoredTarget = -100;

/// losses[n] = log(sum of exp(logits[n])) - logits[n, targets[n]].
///
///   logits   [N, V]  fp32, bf16 or fp16, contiguous; overwritten (see below)
///   targets  [N]     int32; Error(kData) names one that is neither kIgnoredTarget nor in [0, V)
///   losses   [N]     fp32, written
///
/// After cross_entropy_fwd, the contents of `logits` are undefined; cross_entropy_fwd_bwd leaves
/// the gradient of gradient_scale * sum(losses) there.
///
/// On CUDA the targets are not checked: a wrong one makes its loss and gradient NaN.
void cross_entropy_fwd(const Tensor& logits, const Tensor& targets, const Tensor& losses,
                       Stream stream);
void cross_entropy_fwd_bwd(const Tensor& logits, const Tensor& targets, float gradient_scale,
                           const Tensor& losses, Stream stream);

}  // namespace hgt
