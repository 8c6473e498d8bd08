#include <algorithm>

#include "cpu_kernels.h"
#include "dropout_factors.h"

namespace hgt::cpu {
namespace {

/// Elements [first, first + count) of the flat tensors, which lie in sample `row`, where they start
/// at `element`. x may be null.
void add_span(const float* x, const float* branch, const Dropout& options, std::int64_t row,
              std::int64_t element, std::int64_t count, float* y) {
  constexpr std::int64_t kSpan = 1024;
  float factors[kSpan];
  for (std::int64_t at = 0; at < count; at += kSpan) {
    const std::int64_t n = std::min(kSpan, count - at);
    dropout_factors(options, row, element + at, n, factors);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      y[at + i] = branch[at + i] * factors[i] + (x ? x[at + i] : 0.0f);
  }
}

}  // namespace

void dropout_add(const Tensor& x, const Tensor& branch, const Dropout& options, const Tensor& y,
                 ThreadPool& pool) {
  const std::int64_t per_sample = branch.numel() / std::max<std::int64_t>(branch.size(0), 1);
  const float* const xs = x ? x.data<float>() : nullptr;
  const float* const branches = branch.data<float>();
  float* const ys = y.data<float>();
  pool.parallel_for(branch.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    if (options.probability == 0) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) ys[i] = branches[i] + (xs ? xs[i] : 0.0f);
      return;
    }
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t row = i / per_sample, element = i % per_sample;
      const std::int64_t count = std::min(per_sample - element, end - i);
      add_span(xs ? xs + i : nullptr, branches + i, options, row, element, count, ys + i);
      i += count;
    }
  });
}

}  // namespace hgt::cpu
