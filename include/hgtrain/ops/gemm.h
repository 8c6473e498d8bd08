#pragma once

#include "hgtrain/device/stream.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// c = alpha a b + beta c.
///
///   a [M, K], b [K, N], c [M, N]  in each one dimension has stride 1 and the other any: a
///                                 transposed view gives a transposed product
///   beta = 0 overwrites c, whatever it held. c overlaps neither a nor b.
///
/// All fp32; or a and b bf16 or fp16, c of their type or fp32, alpha = 1, and beta = 0, or 1 where
/// c is fp32. Sums are fp32 and rounded once.
///
/// Bit-identical run to run for the same shapes, strides and number of threads; for any number of
/// them on a deterministic pool.
/// Throws Error(kInternal) where shapes or strides disagree.
void gemm(float alpha, const Tensor& a, const Tensor& b, float beta, const Tensor& c,
          Stream stream);

/// From now on, how a product on the queue is computed follows from its operands, the device and
/// cuBLAS's version alone: it is the way that cuBLAS ranks first, and kernels of ours for what
/// comes with it (linear.h). Of a queue this was not called for, products are timed, and the
/// quickest way is kept in a file: another run has the same bits only where it finds that.
void fix_products(const CudaQueue& queue);

/// Whether this CPU has instructions for products of this type. Where it has not, they are widened
/// to fp32 first, which costs more than fp32 training itself.
bool cpu_multiplies(DType dtype);

}  // namespace hgt
