#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// y = gain * x * rrms over the last dimension, rrms = 1 / sqrt(mean(x^2) + eps).
/// Source: Zhang & Sennrich 2019, arXiv:1910.07467.
///
///   x, y   [N, H, C]  fp32, bf16 or fp16, the last dimension contiguous, the others with any
///                     stride (H = 1 for a hidden state; the heads of q or k for Qwen3); y may
///                     be x
///   gain   [C]        of x's type, its gradient fp32
///   rrms   [N, H]     fp32, written; rms_norm_bwd needs them
void rms_norm_fwd(const Tensor& x, const Tensor& gain, float eps, const Tensor& y,
                  const Tensor& rrms, Stream stream);

/// The RMS norm of sum = x + branch in one pass; writes `sum` too. Bit-identical to adding first.
///
///   x, branch, sum  [N, H, C]  like y; sum may be x or branch
void add_rms_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rrms, Stream stream);

/// dx = the gradient of x; with `accumulate` it is added to dx. Without `accumulate`, dx may be dy
/// itself. dgain is added to. Bit-identical for any number of threads.
void rms_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& rrms,
                  bool accumulate, const Tensor& dx, const Tensor& dgain, Stream stream);

}  // namespace hgt
