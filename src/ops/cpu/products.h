#pragma once

// Products on the calling thread alone.

#include <cstdint>
#include <string>
#include <string_view>

#include "hgtrain/base/dtype.h"
#include "hgtrain/base/half.h"

namespace hgt::cpu {

/// C = alpha op(A) op(B) + beta C by oneDNN; C is [m, n], row-major. No signal handler may run on
/// the thread meanwhile, because oneDNN's kernels keep their stack in a buffer on the heap, and the
/// signal's frame would overwrite what lies below.
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

/// c = op(a) op(b), or with `add` c += op(a) op(b), sums in fp32; c is [m, n], row-major, of a's
/// type or fp32 (`add` only there).
template <class T>
struct Product {
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

/// What computes a product: oneDNN, our own kernel, or Intel's MKL.
enum class ProductKernel { kOneDnn, kOwn, kMkl };
/// "oneDNN", "own", "MKL".
std::string_view name_of(ProductKernel kernel);

/// Whether instructions that multiply pairs of bf16 compute more a second than those of fp32.
/// Intel's take two cycles for 32 pairs but one for 32 floats, so they do not; AMX is another unit.
bool bf16_pairs_pay();

/// Whether the CPU has AMX, and Linux lets this process use its registers.
bool may_use_amx();

/// Computed by oneDNN, which needs instructions for bf16: multiplies_bf16().
void library_product(const Product<float>& p);
void library_product(const Product<BFloat16>& p);
bool multiplies_bf16();
/// oneDNN's version, and the CPU instructions that it uses.
std::string library_version();

/// Computed by our own kernel (packed_product.h): with AMX if may_use_amx(), else with the widest
/// vectors of this CPU. `scratch` has kPackedFloats, or if c is fp32 kPackedWideFloats; it begins
/// at a multiple of 64 bytes.
template <class T>
void packed_product(const Product<T>& p, float* scratch);

}  // namespace hgt::cpu
