#include <algorithm>

#include "cpu_kernels.h"

namespace hgt::cpu {

void clear(const Tensor& x, ThreadPool& pool) {
  float* const values = x.data<float>();
  pool.parallel_for(x.numel(), [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(values + begin, values + end, 0.0f);
  });
}

void sum(const Tensor& x, const Tensor& out) {
  const float* const values = x.data<float>();
  double total = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) total += values[i];
  *out.data<double>() = total;
}

}  // namespace hgt::cpu
