#pragma once

#include "hgtrain/base/activation.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// y = f(x), element by element.
///
///   x, y  the same shape and type (fp32, bf16, fp16), contiguous; y may be x itself
void activation_fwd(Activation f, const Tensor& x, const Tensor& y, Stream stream);

/// dx = dy f'(x); dx may be dy itself.
void activation_bwd(Activation f, const Tensor& x, const Tensor& dy, const Tensor& dx,
                    Stream stream);

/// y = f(gate) * up; with kSilu this is SwiGLU. Source: Shazeer 2020, arXiv:2002.05202.
///
///   gate_up  [N, 2F]  fp32, bf16 or fp16, contiguous: the gates of a row, then its up values
///   y        [N, F]   written
void gated_activation_fwd(Activation f, const Tensor& gate_up, const Tensor& y, Stream stream);

/// d_gate_up = the gradient of gate_up; may be gate_up itself.
void gated_activation_bwd(Activation f, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& d_gate_up, Stream stream);

}  // namespace hgt
