#include <algorithm>

#include "hgtrain/base/philox_lanes.h"

#include "kernels.h"
#include "vector_math.h"

namespace hgt::cpu {
namespace {

// 64 elements share 16 counters: counter i gives the elements i, i + 16, i + 32 and i + 48.
constexpr std::int64_t kBlock = kPhiloxWords;

void normal_block(std::uint64_t seed, std::uint64_t stream, std::int64_t block, float std,
                  float* out) {
  std::uint32_t words[kBlock];
  philox_lanes(seed, stream, static_cast<std::uint64_t>(block * kPhiloxLanes), words);
  for (std::int64_t pair = 0; pair < kBlock; pair += 2 * kPhiloxLanes)
#pragma omp simd
    for (std::int64_t i = 0; i < kPhiloxLanes; ++i) {
      const float uniform = (static_cast<float>(words[pair + i]) + 0.5f) * 0x1p-32f;
      const float radius = std * std::sqrt(-2.0f * log_f32(uniform));
      const SinCos turned = sin_cos_of_turns(words[pair + kPhiloxLanes + i]);
      out[pair + i] = radius * turned.cos;
      out[pair + kPhiloxLanes + i] = radius * turned.sin;
    }
}

}  // namespace

void normal_fill(std::uint64_t seed, std::uint64_t stream, float std, std::int64_t first,
                 const Tensor& out, ThreadPool& pool) {
  float* const values = out.data<float>();
  const std::int64_t last = first + out.numel(), first_block = first / kBlock;
  pool.parallel_for(
      (last + kBlock - 1) / kBlock - first_block, [&](std::int64_t from, std::int64_t to, int) {
        for (std::int64_t block = first_block + from; block < first_block + to; ++block) {
          const std::int64_t begin = std::max(block * kBlock, first),
                             end = std::min((block + 1) * kBlock, last);
          if (end - begin == kBlock) {
            normal_block(seed, stream, block, std, values + (begin - first));
            continue;
          }
          float whole[kBlock];
          normal_block(seed, stream, block, std, whole);
          std::copy_n(whole + (begin - block * kBlock), end - begin, values + (begin - first));
        }
      });
}

}  // namespace hgt::cpu
