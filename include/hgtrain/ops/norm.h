#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

// Two norms over the last dimension: a layer norm if there are a bias and a mean, an RMS norm if
// there are neither (no tensor in their place).
//
//   layer norm  y = gain * (x - mean) * rstd + bias, rstd = 1 / sqrt(variance + eps), with the
//               biased variance. Source: Ba et al. 2016, arXiv:1607.06450.
//   RMS norm    y = gain * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps).
//               Source: Zhang & Sennrich 2019, arXiv:1910.07467.
//
//   x, y        [N, C] or [N, H, C]  fp32, bf16 or fp16, the last dimension contiguous, the others
//                                    with any stride (H: the heads of q or k for Qwen3)
//   gain, bias  [C]                  of x's type, their gradients fp32
//   mean, rstd  [N] or [N, H]        fp32, contiguous

/// Writes y, mean and rstd; norm_bwd needs the latter two. y may be x.
void norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps, const Tensor& y,
              const Tensor& mean, const Tensor& rstd, Stream stream);

/// The norm of sum = x + branch in one pass; writes `sum` too. Bit-identical to adding first.
///
///   x, branch, sum  like y; sum may be x or branch
void add_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, const Tensor& bias,
                  float eps, const Tensor& sum, const Tensor& y, const Tensor& mean,
                  const Tensor& rstd, Stream stream);

/// dx = the gradient of x; with `accumulate` it is added to dx, without it dx may be dy itself. The
/// gradients of gain and bias are added to dgain and dbias. Bit-identical for any number of
/// threads.
void norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
              const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
              const Tensor& dbias, Stream stream);

}  // namespace hgt
