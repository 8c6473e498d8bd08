#include <algorithm>
#include <vector>

#include "hgtrain/ops/squares.h"

#include "kernels.h"

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

void sum_of_squares(const Tensor& x, const Tensor& out, ThreadPool& pool) {
  constexpr std::int64_t kPart = 1 << 14;
  std::vector<double> parts(static_cast<std::size_t>((x.numel() + kPart - 1) / kPart));
  pool.parallel_for(std::ssize(parts), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t part = begin; part < end; ++part) {
      const float* const values = x.data<float>() + part * kPart;
      parts[static_cast<std::size_t>(part)] = hgt::sum_of_squares(
          std::min(kPart, x.numel() - part * kPart), [&](std::int64_t i) { return values[i]; });
    }
  });
  double total = 0;
  for (const double part : parts) total += part;
  *out.data<double>() = total;
}

}  // namespace hgt::cpu
