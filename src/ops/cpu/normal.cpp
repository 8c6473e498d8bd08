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

void normal_fill(std::uint64_t seed, std::uint64_t stream, float std, const Tensor& out,
                 ThreadPool& pool) {
  float* const values = out.data<float>();
  const std::int64_t count = out.numel(), whole = count / kBlock;
  pool.parallel_for(whole, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t block = begin; block < end; ++block)
      normal_block(seed, stream, block, std, values + block * kBlock);
  });
  float last[kBlock];
  normal_block(seed, stream, whole, std, last);
  std::copy_n(last, count - whole * kBlock, values + whole * kBlock);
}

}  // namespace hgt::cpu
