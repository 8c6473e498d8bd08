#include "hgtrain/optim/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chunks.h"
#include "sum_of_squares.h"

namespace hgt {

double l2_norm(std::span<const float> values, ThreadPool& pool) {
  const auto total = static_cast<std::int64_t>(values.size());
  std::vector<double> sums((total + kChunk - 1) / kChunk);
  for_chunks(pool, {0, total}, [&](Range range) {
    sums[range.begin / kChunk] =
        sum_of_squares(range.size(), [&](std::int64_t i) { return values[range.begin + i]; });
  });
  double sum = 0;
  for (const double chunk : sums) sum += chunk;
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
