#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Rotary position embedding in place, in HF's convention (rotate_half): dimensions i and i + D/2
/// are a pair. Source: Su et al. 2021, arXiv:2104.09864.
///
///   x         [B, T, H, D]  fp32, bf16 or fp16, the last dimension contiguous; rotated in place
///   cos, sin  [P, D/2]      of the angles of the positions [0, P); P = T without position_ids
///   position_ids  [B, T]    int32 in [0, P), each token's row of cos and sin; none: row t;
///                           checked on the CPU only
void rope_fwd(const Tensor& x, const Tensor& cos, const Tensor& sin, Stream stream,
              const Tensor& position_ids = {});

/// The gradient of x from that of the rotated x, in place: a product with the transposed matrix.
void rope_bwd(const Tensor& dx, const Tensor& cos, const Tensor& sin, Stream stream,
              const Tensor& position_ids = {});

}  // namespace hgt
