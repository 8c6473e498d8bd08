#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// y = gain * (x - mean) * rstd + bias over the last dimension, rstd = 1 / sqrt(variance + eps),
/// with the biased variance. Source: Ba et al. 2016, arXiv:1607.06450.
///
///   x, y         [N, C]  fp32, bf16 or fp16; y may be x itself
///   gain, bias   [C]     of x's type, their gradients fp32
///   mean, rstd   [N]     fp32, written; layer_norm_bwd needs them
void layer_norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                    const Tensor& y, const Tensor& mean, const Tensor& rstd, Stream stream);

/// The layer norm of sum = x + branch in one pass; writes `sum` too. Bit-identical to adding first.
///
///   x, branch, sum  [N, C]  like y; sum may be x or branch
void add_layer_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain,
                        const Tensor& bias, float eps, const Tensor& sum, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, Stream stream);

/// dx = the gradient of x; with `accumulate` it is added to dx. Without, dx may be dy itself. dgain
/// and dbias are added to. Bit-identical for any number of threads.
void layer_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
                    const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
                    const Tensor& dbias, Stream stream);

}  // namespace hgt
