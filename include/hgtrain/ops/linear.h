#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/activation.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// A linear layer, in fp32, bf16 or fp16; the gradients of w and bias are fp32. Determinism and
/// errors are those of gemm.
///
///   x     [N, I]
///   w     [I, O]  a view: GPT-2's Conv1D weight itself, or nn.Linear's [O, I] transposed
///   bias  [O]     or none
///   y     [N, O]  with a bias, the last dimension of y and dy has no gaps
///
/// On CUDA, bias, GELU and the bias's gradient are part of the product if cuBLAS supports that and
/// it is faster than a kernel of ours. Values that are then not stored are not rounded either.

/// y = x w + bias.
void linear_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                Stream stream);

/// y = added + x w + bias; `added` and y are [N, O], contiguous and apart. On CUDA, the sum is part
/// of the product if that is faster, and then rounded once.
void linear_add_fwd(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& added,
                    const Tensor& y, Stream stream);

/// pre = x w + bias, y = f(pre); both [N, O], contiguous.
void linear_activation_fwd(Activation f, const Tensor& x, const Tensor& w, const Tensor& bias,
                           const Tensor& pre, const Tensor& y, Stream stream);

/// dx = dy w^T.
void linear_bwd_input(const Tensor& dy, const Tensor& w, const Tensor& dx, Stream stream);

/// dpre = dy w^T f'(pre), where x is f(pre); both [N, I], contiguous.
void linear_activation_bwd_input(Activation f, const Tensor& dy, const Tensor& w, const Tensor& pre,
                                 const Tensor& dpre, Stream stream);

/// dw += x^T dy and, if there is a bias, dbias += the column sums of dy.
void linear_bwd_weight(const Tensor& x, const Tensor& dy, const Tensor& dw, const Tensor& dbias,
                       Stream stream);

}  // namespace hgt
