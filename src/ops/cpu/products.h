#pragma once

// Products on the calling thread alone.

#include <cstdint>

#include "hgtrain/base/dtype.h"
#include "hgtrain/base/half.h"

namespace hgt::cpu {

/// C = alpha op(A) op(B) + beta C on the calling thread alone; C is [m, n], row-major. No signal
/// handler may run on that thread meanwhile, because oneDNN's kernels keep their stack in a buffer
/// on the heap, and the signal's frame would overwrite what lies below.
struct Sgemm {
  bool transpose_a, transpose_b;  ///< the operand is stored as its transpose
  std::int64_t m, n, k;
  float alpha;
  const float* a;
  std::int64_t lda;  ///< elements from one stored row to the next
  const float* b;
  std::int64_t ldb;
  float beta;
  float* c;
  std::int64_t ldc;
};
void sgemm(const Sgemm& args);

/// A product of 16-bit matrices on the calling thread alone: c = op(a) op(b), or with `add`
/// c += op(a) op(b), sums in fp32; c is [m, n], row-major, of a's type or fp32 (`add` only there).
template <class T>
struct NarrowProduct {
  bool transpose_a, transpose_b;  ///< the operand is stored as its transpose
  std::int64_t m, n, k;
  const T* a;
  std::int64_t lda;  ///< elements from one stored row to the next
  const T* b;
  std::int64_t ldb;
  bool add;
  void* c;
  std::int64_t ldc;
  bool wide;  ///< c is fp32
};

/// Uses the CPU's 16-bit instructions if there are any, else widened_product.
void narrow_product(const NarrowProduct<BFloat16>& p, float* scratch);
void narrow_product(const NarrowProduct<Half>& p, float* scratch);

/// The floats of scratch memory that a product needs: none, or kWidenedFloats.
std::int64_t narrow_product_scratch(DType dtype);

}  // namespace hgt::cpu
