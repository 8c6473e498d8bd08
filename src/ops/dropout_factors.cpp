#include "dropout_factors.h"

#include <algorithm>

#include "hgtrain/base/philox.h"

namespace hgt::cpu {
namespace {

// 64 elements share 16 counters: element e takes word (e / 16) % 4 of counter e / 64 * 16 + e % 16,
// so that 16 generators run side by side in vector registers.
constexpr std::int64_t kLanes = 16, kBlock = 4 * kLanes;

/// The random words of the elements of block `block`.
void draw_block(std::uint64_t key, std::uint64_t site, std::int64_t block, std::uint32_t* words) {
  std::uint32_t c[4][kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t index = static_cast<std::uint64_t>(block * kLanes + i);
    c[0][i] = static_cast<std::uint32_t>(index);
    c[1][i] = static_cast<std::uint32_t>(index >> 32);
    c[2][i] = static_cast<std::uint32_t>(site);
    c[3][i] = static_cast<std::uint32_t>(site >> 32);
  }
  // base/philox.h's rounds, lane by lane (the test holds the two together).
  std::uint32_t key0 = static_cast<std::uint32_t>(key),
                key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0][i];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2][i];
      c[0][i] = static_cast<std::uint32_t>(b >> 32) ^ c[1][i] ^ key0;
      c[1][i] = static_cast<std::uint32_t>(b);
      c[2][i] = static_cast<std::uint32_t>(a >> 32) ^ c[3][i] ^ key1;
      c[3][i] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  std::copy(&c[0][0], &c[0][0] + kBlock, words);
}

}  // namespace

void dropout_factors(const Dropout& options, std::int64_t row, std::int64_t first,
                     std::int64_t count, float* factors) {
  const auto derived = philox(options.seed, static_cast<std::uint64_t>(options.step),
                              static_cast<std::uint64_t>(options.first_sample + row));
  const std::uint64_t key = derived[0] | std::uint64_t{derived[1]} << 32;
  const float kept = 1.0f / (1.0f - options.probability);
  std::uint32_t words[kBlock];
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t block = at / kBlock, offset = at % kBlock;
    const std::int64_t n = std::min(kBlock - offset, first + count - at);
    draw_block(key, options.site, block, words);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      factors[at - first + i] = uniform01(words[offset + i]) >= options.probability ? kept : 0.0f;
    at += n;
  }
}

}  // namespace hgt::cpu
