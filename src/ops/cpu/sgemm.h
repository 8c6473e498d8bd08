#pragma once

#include <cstdint>

#include "hgtrain/tensor/tensor.h"

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

}  // namespace hgt::cpu
