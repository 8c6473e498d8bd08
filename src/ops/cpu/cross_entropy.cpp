#include "hgtrain/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "hgtrain/base/element.h"

#include "kernels.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

/// The largest of a row's logits, and the sum of exp(logit - largest).
struct Softmax {
  float highest, sum;
};

template <class T>
Softmax softmax_of(const T* row, std::int64_t vocabulary) {
  float highest = -std::numeric_limits<float>::infinity(), sum = 0;
#pragma omp simd reduction(max : highest)
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    const float logit = row[v];
    highest = std::max(highest, logit);
  }
#pragma omp simd reduction(+ : sum)
  for (std::int64_t v = 0; v < vocabulary; ++v) sum += exp_f32(row[v] - highest);
  return {highest, sum};
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const float* gradient_scale,
                   const Tensor& losses, ThreadPool& pool) {
  const std::int64_t vocabulary = logits.size(1);
  const std::int32_t* const ids = targets.data<std::int32_t>();
  float* const out = losses.data<float>();
  visit_element(logits.dtype(), [&]<class T>(T) {
    T* const logits_NV = logits.data<T>();
    pool.parallel_for(logits.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        T* const row = logits_NV + n * vocabulary;
        if (ids[n] == kIgnoredTarget) {
          std::fill(row, row + vocabulary, T(0.0f));
          out[n] = 0;
          continue;
        }
        const auto [highest, sum] = softmax_of(row, vocabulary);
        const float wanted = row[ids[n]];
        out[n] = std::log(sum) + highest - wanted;
        if (!gradient_scale) continue;
        const float factor = *gradient_scale / sum, top = highest;
#pragma omp simd
        for (std::int64_t v = 0; v < vocabulary; ++v) row[v] = exp_f32(row[v] - top) * factor;
        row[ids[n]] = exp_f32(wanted - highest) * factor - *gradient_scale;
      }
    });
  });
}

}  // namespace hgt::cpu
