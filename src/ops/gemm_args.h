#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/ops/cuda_ops_table.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// The CUDA module's arguments for c = alpha a b + beta c, without an epilogue. Throws
/// Error(kInternal) if the operands are not what hgtrain/ops/gemm.h requires, on the CPU too.
GemmArgs gemm_args(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
                   Stream stream);

}  // namespace hgt
