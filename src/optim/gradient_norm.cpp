#include "hgtrain/optim/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chunks.h"

namespace hgt {
namespace {

double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t kLanes = 32;  // independent sums, so that the loop is vectorised as written
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      lanes[lane] += x * x;
    }
  for (; i < values.size(); ++i) lanes[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double l2_norm(std::span<const float> values, ThreadPool& pool) {
  const auto total = static_cast<std::int64_t>(values.size());
  std::vector<double> sums((total + kChunk - 1) / kChunk);
  for_chunks(pool, {0, total}, [&](Range range) {
    sums[range.begin / kChunk] = sum_of_squares(values.subspan(range.begin, range.size()));
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
