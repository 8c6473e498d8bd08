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

/// Turns a row's logits into their gradient: exp(logit - highest) times the factor.
template <class T>
void scale_probabilities(T* row, std::int64_t columns, float highest, float factor) {
#pragma omp simd
  for (std::int64_t v = 0; v < columns; ++v) row[v] = exp_f32(row[v] - highest) * factor;
}

/// The columns of a rank's logits that are no padding.
std::int64_t columns_of(const Tensor& logits, const VocabularyPart& part) {
  return std::clamp(part.size - part.first, std::int64_t{0}, logits.size(1));
}

}  // namespace

void cross_entropy(const Tensor& logits, std::int64_t vocabulary, const Tensor& targets,
                   const float* gradient_scale, const Tensor& losses, ThreadPool& pool) {
  const std::int64_t width = logits.size(1);
  const std::int32_t* const ids = targets.data<std::int32_t>();
  float* const out = losses.data<float>();
  visit_element(logits.dtype(), [&]<class T>(T) {
    T* const logits_NV = logits.data<T>();
    pool.parallel_for(logits.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        T* const row = logits_NV + n * width;
        if (ids[n] == kIgnoredTarget) {
          std::fill(row, row + width, T(0.0f));
          out[n] = 0;
          continue;
        }
        const auto [highest, sum] = softmax_of(row, vocabulary);
        const float wanted = row[ids[n]];
        out[n] = std::log(sum) + highest - wanted;
        if (!gradient_scale) continue;
        const float factor = *gradient_scale / sum;
        scale_probabilities(row, vocabulary, highest, factor);
        std::fill(row + vocabulary, row + width, T(0.0f));
        row[ids[n]] = exp_f32(wanted - highest) * factor - *gradient_scale;
      }
    });
  });
}

void cross_entropy_part(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                        const Tensor& out, ThreadPool& pool) {
  const std::int64_t width = logits.size(1), columns = columns_of(logits, part);
  const std::int32_t* const ids = targets.data<std::int32_t>();
  float* const out_N3 = out.data<float>();
  visit_element(logits.dtype(), [&]<class T>(T) {
    const T* const logits_NV = logits.data<T>();
    pool.parallel_for(logits.size(0), [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        const T* const row = logits_NV + n * width;
        const std::int64_t wanted = ids[n] - part.first;
        const auto [highest, sum] = softmax_of(row, columns);
        float* const to = out_N3 + 3 * n;
        to[0] = highest;
        to[1] = sum;
        to[2] = wanted >= 0 && wanted < columns ? float{row[wanted]} : 0.0f;
      }
    });
  });
}

void cross_entropy_finish(const Tensor& logits, const Tensor& targets, VocabularyPart part,
                          const Tensor& parts, const float* gradient_scale, const Tensor& losses,
                          ThreadPool& pool) {
  const std::int64_t rows = logits.size(0), width = logits.size(1), ranks = parts.size(0);
  const std::int64_t columns = columns_of(logits, part);
  const std::int32_t* const ids = targets.data<std::int32_t>();
  float* const out = losses.data<float>();
  visit_element(logits.dtype(), [&]<class T>(T) {
    T* const logits_NV = logits.data<T>();
    pool.parallel_for(rows, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t n = begin; n < end; ++n) {
        T* const row = logits_NV + n * width;
        if (ids[n] == kIgnoredTarget) {
          std::fill(row, row + width, T(0.0f));
          out[n] = 0;
          continue;
        }
        const auto of_rank = [&](std::int64_t r) {
          return parts.data<float>() + 3 * (r * rows + n);
        };
        float highest = -std::numeric_limits<float>::infinity(), sum = 0, wanted = 0;
        for (std::int64_t r = 0; r < ranks; ++r) highest = std::max(highest, of_rank(r)[0]);
        for (std::int64_t r = 0; r < ranks; ++r) {
          sum += of_rank(r)[1] * std::exp(of_rank(r)[0] - highest);
          wanted += of_rank(r)[2];
        }
        out[n] = std::log(sum) + highest - wanted;
        if (!gradient_scale) continue;
        scale_probabilities(row, columns, highest, *gradient_scale / sum);
        std::fill(row + columns, row + width, T(0.0f));
        const std::int64_t own = ids[n] - part.first;
        if (own >= 0 && own < columns)
          row[own] = exp_f32(wanted - highest) * (*gradient_scale / sum) - *gradient_scale;
      }
    });
  });
}

}  // namespace hgt::cpu
