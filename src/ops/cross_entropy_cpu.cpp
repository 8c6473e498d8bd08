#include <algorithm>
#include <cmath>
#include <limits>

#include "hgtrain/ops/cross_entropy.h"

#include "cpu_kernels.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

/// Loss of a row; leaves exp(logit - max) in it, and their sum in `sum`.
float row_loss(float* row, std::int64_t vocabulary, std::int32_t target, float* sum) {
  float highest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : highest)
  for (std::int64_t v = 0; v < vocabulary; ++v) highest = std::max(highest, row[v]);
  const float wanted = row[target];
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t v = 0; v < vocabulary; ++v) {
    row[v] = exp_f32(row[v] - highest);
    total += row[v];
  }
  *sum = total;
  return std::log(total) + highest - wanted;
}

}  // namespace

void cross_entropy(const Tensor& logits, const Tensor& targets, const float* gradient_scale,
                   const Tensor& losses, ThreadPool& pool) {
  const std::int64_t vocabulary = logits.size(1);
  const std::int32_t* const ids = targets.data<std::int32_t>();
  float* const out = losses.data<float>();
  pool.parallel_for(logits.size(0), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t n = begin; n < end; ++n) {
      float* const row = logits.data<float>() + n * vocabulary;
      if (ids[n] == kIgnoredTarget) {
        std::fill(row, row + vocabulary, 0.0f);
        out[n] = 0;
        continue;
      }
      float sum = 0;
      out[n] = row_loss(row, vocabulary, ids[n], &sum);
      if (!gradient_scale) continue;
      const float factor = *gradient_scale / sum;
#pragma omp simd
      for (std::int64_t v = 0; v < vocabulary; ++v) row[v] *= factor;
      row[ids[n]] -= *gradient_scale;
    }
  });
}

}  // namespace hgt::cpu
