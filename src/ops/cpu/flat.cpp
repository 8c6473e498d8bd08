#include <algorithm>

#include "kernels.h"

namespace hgt::cpu {

void clear(const Tensor& x, ThreadPool& pool) {
  float* const values = x.data<float>();
  pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(values + begin, values + end, 0.0f);
  });
}

void accumulate(const Tensor& from, const Tensor& to, bool first, ThreadPool& pool) {
  const float* __restrict const source = from.data<float>();
  float* __restrict const sums = to.data<float>();
  pool.parallel_for(from.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    if (first)
      std::copy(source + begin, source + end, sums + begin);
    else
      for (std::int64_t i = begin; i < end; ++i) sums[i] += source[i];
  });
}

void sum(const Tensor& x, const Tensor& out) {
  const float* const values = x.data<float>();
  double total = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) total += values[i];
  *out.data<double>() = total;
}

}  // namespace hgt::cpu
