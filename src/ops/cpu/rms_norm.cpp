#include <cmath>

#include "hgtrain/base/element.h"

#include "kernels.h"
#include "rows.h"

namespace hgt::cpu {
namespace {

/// 1 / the root mean square of x, with eps.
template <class T>
float normalize(const T* x, const T* gain, float eps, std::int64_t width, T* y) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < width; ++c) squares += x[c] * x[c];
  const float r = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = x[c] * r * gain[c];
  return r;
}

/// With n = x r and h = dy gain:  dx = r (h - n mean(h n)). Adds to dgain.
template <class T>
void row_backward(const T* dy, const T* x, const T* gain, float r, std::int64_t width,
                  bool accumulate, T* dx, float* dgain) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) {
    const float normed = x[c] * r;
    sum += dy[c] * gain[c] * normed;
    dgain[c] += dy[c] * normed;
  }
  const float mean_hn = sum / static_cast<float>(width);
  const auto gradient = [=](std::int64_t c) { return r * (dy[c] * gain[c] - x[c] * r * mean_hn); };
  if (accumulate) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = dx[c] + gradient(c);
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = gradient(c);
  }
}

}  // namespace

void rms_norm_fwd(const Tensor& x, const Tensor& gain, float eps, const Tensor& y,
                  const Tensor& rrms, ThreadPool& pool) {
  const std::int64_t heads = x.size(1), width = x.size(2);
  float* const rs = rrms.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    const T* const x_NHC = x.data<T>();
    T* const y_NHC = y.data<T>();
    pool.parallel_for(x.size(0) * heads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t n = i / heads, h = i % heads;
        rs[i] = normalize(x_NHC + n * x.stride(0) + h * x.stride(1), gain.data<T>(), eps, width,
                          y_NHC + n * y.stride(0) + h * y.stride(1));
      }
    });
  });
}

void add_rms_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, float eps,
                      const Tensor& sum, const Tensor& y, const Tensor& rrms, ThreadPool& pool) {
  const std::int64_t heads = x.size(1), width = x.size(2);
  float* const rs = rrms.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    const auto row_of = [&](const Tensor& of, std::int64_t i) {
      return of.data<T>() + i / heads * of.stride(0) + i % heads * of.stride(1);
    };
    pool.parallel_for(x.size(0) * heads, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        T* const row = row_of(sum, i);  // add and normalise while it is in the cache
        add(row_of(x, i), row_of(branch, i), width, row);
        rs[i] = normalize(row, gain.data<T>(), eps, width, row_of(y, i));
      }
    });
  });
}

void rms_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& rrms,
                  bool accumulate, const Tensor& dx, const Tensor& dgain, ThreadPool& pool) {
  const std::int64_t heads = x.size(1), width = x.size(2);
  const float* const rs = rrms.data<float>();
  ColumnPartials partials(pool, x.size(0) * heads, width);
  visit_element(x.dtype(), [&]<class T>(T) {
    partials.for_each_row([&](std::int64_t i, float* sums) {
      const std::int64_t n = i / heads, h = i % heads;
      row_backward(dy.data<T>() + n * dy.stride(0) + h * dy.stride(1),
                   x.data<T>() + n * x.stride(0) + h * x.stride(1), gain.data<T>(), rs[i], width,
                   accumulate, dx.data<T>() + n * dx.stride(0) + h * dx.stride(1), sums);
    });
  });
  partials.add_to(dgain.data<float>(), 0, width);
}

}  // namespace hgt::cpu
