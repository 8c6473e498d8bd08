// The matrix product, in place of cuBLAS's: the sum that defines it.

#include "cuda_element.h"
#include "cuda_launchers.h"

namespace hgt::cuda {
namespace {

std::int64_t place(std::int64_t row, std::int64_t column, std::int64_t ld, bool transposed) {
  return transposed ? column * ld + row : row * ld + column;
}

template <class T, class C>
void multiply(const GemmArgs& args) {
  const T *const a = static_cast<const T*>(args.a), *const b = static_cast<const T*>(args.b);
  for (std::int64_t i = 0; i < args.m; ++i)
    for (std::int64_t j = 0; j < args.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < args.k; ++l)
        sum += static_cast<double>(to_float(a[place(i, l, args.lda, args.transposed_a)])) *
               static_cast<double>(to_float(b[place(l, j, args.ldb, args.transposed_b)]));
      C* const c = static_cast<C*>(args.c) + place(i, j, args.ldc, args.transposed_c);
      const float before = args.beta == 0 ? 0.0f : args.beta * to_float(*c);
      store(c, args.alpha * static_cast<float>(sum) + before);
    }
}

}  // namespace

void gemm(const GemmArgs& args, CudaStreamState&) {
  visit_element(args.type, [&]<class T>(T) {
    args.c_type == DType::kF32 ? multiply<T, float>(args) : multiply<T, T>(args);
  });
}

}  // namespace hgt::cuda
