#pragma once

#include "hgtrain/base/half.h"

#include "products.h"

namespace hgt::cpu {

/// Our own kernel for products on the calling thread alone. It widens operands to fp32 while it
/// packs them, so 16-bit products take as long as those of fp32.
///
/// An element of c is the sum of its products in order, each added without rounding it first, in
/// parts of kPackedDepth or a little less that are of equal length and follow from k alone. So it
/// has the same bits however c is cut into cells, and on all CPUs with fused multiply-adds.
/// `scratch` has kPackedFloats, or if c is fp32 kPackedWideFloats.
struct PackedKernels {
  void (*f32)(const Product<float>& p, float* scratch);
  void (*bf16)(const Product<BFloat16>& p, float* scratch);
  void (*f16)(const Product<Half>& p, float* scratch);
};

/// Compiled for the instruction set that the CPU kernels are compiled for, and for AVX-512 if that
/// is another one (the build then defines HGT_PACKED_AVX512).
extern const PackedKernels kPackedKernels, kPackedKernelsAvx512;

}  // namespace hgt::cpu
