#include <cmath>

#include "hgtrain/base/element.h"

#include "kernels.h"
#include "rows.h"

namespace hgt::cpu {
namespace {

// ---- one row ----

struct Moments {
  float mean, rstd;
};

template <class T>
Moments layer_norm(const T* x, const T* gain, const T* bias, float eps, std::int64_t width, T* y) {
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

/// 1 / the root mean square of x, with eps.
template <class T>
float rms_norm(const T* x, const T* gain, float eps, std::int64_t width, T* y) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < width; ++c) squares += x[c] * x[c];
  const float r = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = x[c] * r * gain[c];
  return r;
}

template <class T, class Gradient>
void write_gradient(const Gradient& gradient, std::int64_t width, bool accumulate, T* dx) {
  if (accumulate) {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = dx[c] + gradient(c);
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) dx[c] = gradient(c);
  }
}

/// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)). Adds to dgain
/// and dbias.
template <class T>
void layer_norm_bwd(const T* dy, const T* x, const T* gain, Moments moments, std::int64_t width,
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
  write_gradient(
      [=](std::int64_t c) { return r * (dy[c] * gain[c] - mean_h - (x[c] - m) * r * mean_hn); },
      width, accumulate, dx);
}

/// With n = x r and h = dy gain:  dx = r (h - n mean(h n)). Adds to dgain.
template <class T>
void rms_norm_bwd(const T* dy, const T* x, const T* gain, float r, std::int64_t width,
                  bool accumulate, T* dx, float* dgain) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) {
    const float normed = x[c] * r;
    sum += dy[c] * gain[c] * normed;
    dgain[c] += dy[c] * normed;
  }
  const float mean_hn = sum / static_cast<float>(width);
  write_gradient([=](std::int64_t c) { return r * (dy[c] * gain[c] - x[c] * r * mean_hn); }, width,
                 accumulate, dx);
}

// ---- all rows ----

/// The rows of x [N, C] or [N, H, C], or of no tensor.
template <class T>
struct Rows {
  explicit Rows(const Tensor& x) : data(data_or_null<T>(x)) {
    if (!x) return;
    stride = x.stride(0);
    if (x.rank() == 2) return;
    heads = x.size(1);
    head_stride = x.stride(1);
  }
  T* operator[](std::int64_t i) const {
    return data + i / heads * stride + i % heads * head_stride;
  }
  T* data;
  std::int64_t heads = 1, stride = 0, head_stride = 0;
};

}  // namespace

void norm_fwd(const Tensor& x, const Tensor& branch, const Tensor& gain, const Tensor& bias,
              float eps, const Tensor& sum, const Tensor& y, const Tensor& mean, const Tensor& rstd,
              ThreadPool& pool) {
  const std::int64_t width = x.size(-1);
  float* const means = data_or_null<float>(mean);
  float* const rstds = rstd.data<float>();
  visit_element(x.dtype(), [&]<class T>(T) {
    const Rows<T> xs(x), branches(branch), sums(sum), ys(y);
    const T* const gains = gain.data<T>();
    const T* const biases = data_or_null<T>(bias);
    pool.parallel_for(rstd.numel(), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const T* row = xs[i];
        if (branch) {  // add and normalise while it is in the cache
          add(row, branches[i], width, sums[i]);
          row = sums[i];
        }
        if (biases == nullptr) {
          rstds[i] = rms_norm(row, gains, eps, width, ys[i]);
          continue;
        }
        const Moments moments = layer_norm(row, gains, biases, eps, width, ys[i]);
        means[i] = moments.mean;
        rstds[i] = moments.rstd;
      }
    });
  });
}

void norm_bwd(const Tensor& dy, const Tensor& x, const Tensor& gain, const Tensor& mean,
              const Tensor& rstd, bool accumulate, const Tensor& dx, const Tensor& dgain,
              const Tensor& dbias, ThreadPool& pool) {
  const std::int64_t width = x.size(-1);
  const float* const means = data_or_null<float>(mean);
  const float* const rstds = rstd.data<float>();
  ColumnPartials partials(pool, rstd.numel(), norm_sums(width, means != nullptr));
  visit_element(x.dtype(), [&]<class T>(T) {
    const Rows<T> dys(dy), xs(x), dxs(dx);
    const T* const gains = gain.data<T>();
    partials.for_each_row([&](std::int64_t i, float* sums) {
      if (means == nullptr)
        rms_norm_bwd(dys[i], xs[i], gains, rstds[i], width, accumulate, dxs[i], sums);
      else
        layer_norm_bwd(dys[i], xs[i], gains, {means[i], rstds[i]}, width, accumulate, dxs[i], sums,
                       sums + width);
    });
  });
  partials.add_to(dgain.data<float>(), 0, width);
  if (mean) partials.add_to(dbias.data<float>(), width, width);
}

}  // namespace hgt::cpu
