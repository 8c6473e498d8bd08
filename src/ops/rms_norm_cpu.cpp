#include <cmath>

#include "column_partials.h"
#include "cpu_kernels.h"

namespace hgt::cpu {

void rms_norm_fwd(const Tensor& x, const Tensor& gain, float eps, const Tensor& y,
                  const Tensor& rrms, ThreadPool& pool) {
  const std::int64_t heads = x.size(1), width = x.size(2);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* const g = gain.data<float>();
  float* const rs = rrms.data<float>();
  pool.parallel_for(x.size(0) * heads, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / heads, h = i % heads;
      const float* const row = x.data<float>() + n * x.stride(0) + h * x.stride(1);
      float* const out = y.data<float>() + n * y.stride(0) + h * y.stride(1);
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < width; ++c) squares += row[c] * row[c];
      const float r = 1.0f / std::sqrt(squares * inverse_width + eps);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = row[c] * r * g[c];
      rs[i] = r;
    }
  });
}

// With n = x rrms and h = dy gain:  dx = rrms (h - n mean(h n)).
void rms_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& rrms,
                  bool accumulate, const Tensor& dx, const Tensor& dgain, ThreadPool& pool) {
  const std::int64_t heads = x.size(1), width = x.size(2);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* const g = gain.data<float>();
  const float* const rs = rrms.data<float>();
  ColumnPartials partials(pool, x.size(0) * heads, width);
  partials.for_each_row([&](std::int64_t i, float* sums) {
    const std::int64_t n = i / heads, h = i % heads;
    const float* const d = dy.data<float>() + n * dy.stride(0) + h * dy.stride(1);
    const float* const row = x.data<float>() + n * x.stride(0) + h * x.stride(1);
    float* const out = dx.data<float>() + n * dx.stride(0) + h * dx.stride(1);
    const float r = rs[i];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < width; ++c) {
      const float normed = row[c] * r;
      sum += d[c] * g[c] * normed;
      sums[c] += d[c] * normed;
    }
    const float mean_hn = sum * inverse_width;
    const auto gradient = [=](std::int64_t c) { return r * (d[c] * g[c] - row[c] * r * mean_hn); };
    if (accumulate) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] += gradient(c);
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = gradient(c);
    }
  });
  partials.add_to(dgain.data<float>(), 0, width);
}

}  // namespace hgt::cpu
