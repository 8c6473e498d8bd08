#include "cpu_kernels.h"

namespace hgt::cpu {

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction,
          ThreadPool& pool) {
  const std::int64_t length = x.size(1), heads = x.size(2), half = x.size(3) / 2;
  float* const x_BTHD = x.data<float>();
  const float* const cos_TR = cos.data<float>();
  const float* const sin_TR = sin.data<float>();
  pool.parallel_for(x.size(0) * length, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t t = n % length;
      const float* const c = cos_TR + t * half;
      const float* const s = sin_TR + t * half;
      for (std::int64_t h = 0; h < heads; ++h) {
        float* const first = x_BTHD + n / length * x.stride(0) + t * x.stride(1) + h * x.stride(2);
        float* const second = first + half;
#pragma omp simd
        for (std::int64_t i = 0; i < half; ++i) {
          const float a = first[i], b = second[i], turn = direction * s[i];
          first[i] = a * c[i] - b * turn;
          second[i] = b * c[i] + a * turn;
        }
      }
    }
  });
}

}  // namespace hgt::cpu
