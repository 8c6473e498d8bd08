#include "hgtrain/optim/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "hgtrain/ops/run_cuda.h"

#include "chunks.h"
#include "sum_of_squares.h"

namespace hgt {

namespace {

double sum_on_cpu(const float* values, std::int64_t total, ThreadPool& pool) {
  std::vector<double> sums((total + kChunk - 1) / kChunk);
  for_chunks(pool, {0, total}, [&](Range range) {
    sums[range.begin / kChunk] =
        sum_of_squares(range.size(), [&](std::int64_t i) { return values[range.begin + i]; });
  });
  double sum = 0;
  for (const double chunk : sums) sum += chunk;
  return sum;
}

}  // namespace

GradientNorm::GradientNorm(Stream stream)
    : stream_(stream), squares_("sum of squares", sizeof(double), stream.device()) {}

double GradientNorm::of(const Tensor& values) const {
  const float* const data = values.data<float>();
  if (stream_.device().is_cpu()) return std::sqrt(sum_on_cpu(data, values.numel(), stream_.pool()));
  double sum = 0;
  run_cuda(stream_, &CudaOpsTable::sum_of_squares,
           {data, values.numel(), squares_.as<double>().data()});
  stream_.copy(&sum, squares_.data(), sizeof sum);
  stream_.synchronize();
  return std::sqrt(sum);
}

double clip_factor(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

std::int64_t first_non_finite(std::span<const float> values) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  return found == values.end() ? -1 : found - values.begin();
}

}  // namespace hgt
