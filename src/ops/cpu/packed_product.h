#pragma once

#include "hgtrain/base/half.h"

#include "products.h"

namespace hgt::cpu {

/// Our own kernel for products on the calling thread alone. It widens operands to fp32 while it
/// packs them, so 16-bit products take as long as those of fp32.
///
/// An element of c is the sum of its products in order, with fused multiply-adds. The sum is cut
/// into equal parts of kPackedDepth products or a little less, which follow from k alone. So an
/// element has the same bits however c is cut into cells, and on all CPUs with fused multiply-adds.
/// `scratch` has kPackedFloats, or if c is fp32 kPackedWideFloats.
struct PackedKernels {
  void (*f32)(const Product<float>& p, float* scratch);
  void (*bf16)(const Product<BFloat16>& p, float* scratch);
  void (*f16)(const Product<Half>& p, float* scratch);
};

/// Compiled for the instruction set that the CPU kernels are compiled for, and for AVX-512 if that
/// is another one (the build then defines HGT_PACKED_AVX512).
extern const PackedKernels kPackedKernels, kPackedKernelsAvx512;

/// c = a b or c += a b with AMX, only if may_use_amx(). An element has the same bits however c is
/// cut into cells, but not those of PackedKernels. `scratch` is as there, and begins at a multiple
/// of 64 bytes: tiles that cross cache lines would take twice as long to load.
///
/// Sums start from c, and an instruction adds 32 products of bf16 to each. A number of fp32 is
/// multiplied as the sum of three bf16, and one of fp16 as that of two: exactly, if it is 0 or from
/// 2^-102 to 2^127. Of the nine products of fp32, the three smallest are left out, which together
/// are at most 2^-24 of the whole, as a rounding error of fp32 is. The exceptions: parts, products
/// and numbers of c below 2^-126 count as 0, numbers of fp32 from 0x1.ffp127 on as infinite, as may
/// products just below that, and an infinity of fp32 or fp16 gives a NaN. Source: Henry, Tang and
/// Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
/// Computations (2019).
template <class T>
void amx_product(const Product<T>& p, float* scratch);

}  // namespace hgt::cpu
