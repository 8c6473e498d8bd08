#include <cmath>

#include "column_partials.h"
#include "cpu_kernels.h"

namespace hgt::cpu {

void layer_norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                    const Tensor& y, const Tensor& mean, const Tensor& rstd, ThreadPool& pool) {
  const std::int64_t width = x.size(1);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* const x_NC = x.data<float>();
  const float* const g = gain.data<float>();
  const float* const b = bias.data<float>();
  float* const y_NC = y.data<float>();
  float* const means = mean.data<float>();
  float* const rstds = rstd.data<float>();
  pool.parallel_for(x.size(0), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t n = begin; n < end; ++n) {
      const float* const row = x_NC + n * width;
      float* const out = y_NC + n * width;
      float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t c = 0; c < width; ++c) sum += row[c];
      const float m = sum * inverse_width;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t c = 0; c < width; ++c) squares += (row[c] - m) * (row[c] - m);
      const float r = 1.0f / std::sqrt(squares * inverse_width + eps);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = (row[c] - m) * r * g[c] + b[c];
      means[n] = m;
      rstds[n] = r;
    }
  });
}

// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)).
void layer_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
                    const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
                    const Tensor& dbias, ThreadPool& pool) {
  const std::int64_t width = x.size(1);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float* const dy_NC = dy.data<float>();
  const float* const x_NC = x.data<float>();
  const float* const g = gain.data<float>();
  const float* const means = mean.data<float>();
  const float* const rstds = rstd.data<float>();
  float* const dx_NC = dx.data<float>();
  ColumnPartials partials(pool, x.size(0), 2 * width);
  partials.for_each_row([&](std::int64_t n, float* sums) {
    const float* const d = dy_NC + n * width;
    const float* const row = x_NC + n * width;
    float* const out = dx_NC + n * width;
    const float m = means[n], r = rstds[n];
    float sum_h = 0, sum_hn = 0;
#pragma omp simd reduction(+ : sum_h, sum_hn)
    for (std::int64_t c = 0; c < width; ++c) {
      const float normed = (row[c] - m) * r, h = d[c] * g[c];
      sum_h += h;
      sum_hn += h * normed;
      sums[c] += d[c] * normed;
      sums[width + c] += d[c];
    }
    const float mean_h = sum_h * inverse_width, mean_hn = sum_hn * inverse_width;
    const auto gradient = [=](std::int64_t c) {
      return r * (d[c] * g[c] - mean_h - (row[c] - m) * r * mean_hn);
    };
    if (accumulate) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] += gradient(c);
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = gradient(c);
    }
  });
  partials.add_to(dgain.data<float>(), 0, width);
  partials.add_to(dbias.data<float>(), width, width);
}

}  // namespace hgt::cpu
