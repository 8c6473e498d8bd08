#include <cmath>

#include "hgtrain/base/element.h"

#include "kernels.h"
#include "rows.h"

namespace hgt::cpu {
namespace {

struct Moments {
  float mean, rstd;
};

template <class T>
Moments normalize(const T* x, const T* gain, const T* bias, float eps, std::int64_t width, T* y) {
  const float inverse_width = 1.0f / static_cast<float>(width);
  float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += x[c];
  const float m = sum * inverse_width;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < width; ++c) squares += (x[c] - m) * (x[c] - m);
  const float r = 1.0f / std::sqrt(squares * inverse_width + eps);
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = (x[c] - m) * r * gain[c] + bias[c];
  return {m, r};
}

/// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)). Adds to dgain
/// and dbias.
template <class T>
void row_backward(const T* dy, const T* x, const T* gain, Moments moments, std::int64_t width,
                  bool accumulate, T* dx, float* dgain, float* dbias) {
  const float m = moments.mean, r = moments.rstd;
  float sum_h = 0, sum_hn = 0;
#pragma omp simd reduction(+ : sum_h, sum_hn)
  for (std::int64_t c = 0; c < width; ++c) {
    const float normed = (x[c] - m) * r, h = dy[c] * gain[c];
    sum_h += h;
    sum_hn += h * normed;
    dgain[c] += dy[c] * normed;
    dbias[c] += dy[c];
  }
  const float inverse_width = 1.0f / static_cast<float>(width);
  const float mean_h = sum_h * inverse_width, mean_hn = sum_hn * inverse_width;
  const auto gradient = [=](std::int64_t c) {
    return r * (dy[c] * gain[c] - mean_h - (x[c] - m) * r * mean_hn);
  };
  if (accumulate) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = dx[c] + gradient(c);
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = gradient(c);
  }
}

}  // namespace

void layer_norm_fwd(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps,
                    const Tensor& y, const Tensor& mean, const Tensor& rstd, ThreadPool& pool) {
  const std::int64_t width = x.size(1);
  float* const means = mean.data<float>();
  float* const rstds = rstd.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    const T* const x_NC = x.data<T>();
    T* const y_NC = y.data<T>();
    pool.parallel_for(x.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const Moments moments = normalize(x_NC + n * width, gain.data<T>(), bias.data<T>(), eps,
                                          width, y_NC + n * width);
        means[n] = moments.mean;
        rstds[n] = moments.rstd;
      }
    });
  });
}

void add_layer_norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain,
                        const Tensor& bias, float eps, const Tensor& sum, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd, ThreadPool& pool) {
  const std::int64_t width = x.size(1);
  float* const means = mean.data<float>();
  float* const rstds = rstd.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    pool.parallel_for(x.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        T* const row = sum.data<T>() + n * width;  // add and normalise while it is in the cache
        add(x.data<T>() + n * width, branch.data<T>() + n * width, width, row);
        const Moments moments =
            normalize(row, gain.data<T>(), bias.data<T>(), eps, width, y.data<T>() + n * width);
        means[n] = moments.mean;
        rstds[n] = moments.rstd;
      }
    });
  });
}

void layer_norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
                    const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
                    const Tensor& dbias, ThreadPool& pool) {
  const std::int64_t width = x.size(1);
  const float* const means = mean.data<float>();
  const float* const rstds = rstd.data<float>();
  ColumnPartials partials(pool, x.size(0), 2 * width);
  visit_element(x.dtype(), [&]<class T>(T) {
    partials.for_each_row([&](std::int64_t n, float* sums) {
      row_backward(dy.data<T>() + n * width, x.data<T>() + n * width, gain.data<T>(),
                   {means[n], rstds[n]}, width, accumulate, dx.data<T>() + n * width, sums,
                   sums + width);
    });
  });
  partials.add_to(dgain.data<float>(), 0, width);
  partials.add_to(dbias.data<float>(), width, width);
}

}  // namespace hgt::cpu
