#include "dropout_factors.h"

#include <algorithm>

#include "hgtrain/base/philox.h"
#include "hgtrain/base/philox_lanes.h"

namespace hgt::cpu {
namespace {

// 64 elements share 16 counters: element e takes word (e / 16) % 4 of counter e / 64 * 16 + e % 16.
constexpr std::int64_t kBlock = kPhiloxWords;

}  // namespace

void dropout_factors(const Dropout& options, std::int64_t row, std::int64_t first,
                     std::int64_t count, float* factors) {
  const std::uint64_t key =
      philox_key(options.seed, static_cast<std::uint64_t>(options.samples->step),
                 static_cast<std::uint64_t>(options.samples->first_sample + row));
  const float kept = 1.0f / (1.0f - options.probability);
  std::uint32_t words[kBlock];
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t block = at / kBlock, offset = at % kBlock;
    const std::int64_t n = std::min(kBlock - offset, first + count - at);
    philox_lanes(key, options.site, static_cast<std::uint64_t>(block * kPhiloxLanes), words);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      factors[at - first + i] = uniform01(words[offset + i]) >= options.probability ? kept : 0.0f;
    at += n;
  }
}

}  // namespace hgt::cpu
