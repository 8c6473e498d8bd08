// The matrix product, in place of cuBLAS's: the sum that defines it.

#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

float at(const float* x, std::int64_t row, std::int64_t column, std::int64_t ld, bool transposed) {
  return transposed ? x[column * ld + row] : x[row * ld + column];
}

}  // namespace

void gemm(const GemmArgs& args, CudaStreamState&) {
  for (std::int64_t i = 0; i < args.m; ++i)
    for (std::int64_t j = 0; j < args.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < args.k; ++l)
        sum += static_cast<double>(at(args.a, i, l, args.lda, args.transposed_a)) *
               static_cast<double>(at(args.b, l, j, args.ldb, args.transposed_b));
      float& c = args.transposed_c ? args.c[j * args.ldc + i] : args.c[i * args.ldc + j];
      const float before = args.beta == 0 ? 0.0f : args.beta * c;
      c = args.alpha * static_cast<float>(sum) + before;
    }
}

}  // namespace hgt::cuda
