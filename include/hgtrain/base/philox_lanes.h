#pragma once

#include <cstdint>

namespace hgt {

/// 16 generators side by side in vector registers, and the words they give at once.
constexpr std::int64_t kPhiloxLanes = 16, kPhiloxWords = 4 * kPhiloxLanes;

/// base/philox.h's philox(key, stream, index) for 16 indices from `first_index` on: word w of index
/// first_index + i is words[w * 16 + i].
inline void philox_lanes(std::uint64_t key, std::uint64_t stream, std::uint64_t first_index,
                         std::uint32_t* words) {
  std::uint32_t c[4][kPhiloxLanes];
  for (int i = 0; i < kPhiloxLanes; ++i) {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(i);
    c[0][i] = static_cast<std::uint32_t>(index);
    c[1][i] = static_cast<std::uint32_t>(index >> 32);
    c[2][i] = static_cast<std::uint32_t>(stream);
    c[3][i] = static_cast<std::uint32_t>(stream >> 32);
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(key),
                key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int i = 0; i < kPhiloxLanes; ++i) {
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
  for (int w = 0; w < 4; ++w)
    for (int i = 0; i < kPhiloxLanes; ++i) words[w * kPhiloxLanes + i] = c[w][i];
}

}  // namespace hgt
