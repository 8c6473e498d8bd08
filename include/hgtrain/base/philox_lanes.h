#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hgt {

/// 16 generators side by side in vector registers, and the words they give at once.
constexpr std::int64_t kPhiloxLanes = 16, kPhiloxWords = 4 * kPhiloxLanes;

namespace philox_detail {

#if defined(__AVX512F__)
constexpr int kWidth = 8;
#elif defined(__AVX2__)
constexpr int kWidth = 4;
#else
constexpr int kWidth = 2;
#endif
/// A register of 64-bit numbers.
using Lanes = std::uint64_t __attribute__((vector_size(8 * kWidth)));

/// `factor` times the low halves of x. From x & 0xffffffff, GCC would make a slower product of 64
/// bits.
inline Lanes multiply_low(Lanes x, std::uint32_t factor) {
#if defined(__AVX512F__)
  // With a mask, because GCC 12 warns of the other form's undefined operand.
  return (Lanes)_mm512_maskz_mul_epu32(0xff, (__m512i)x, _mm512_set1_epi64(factor));
#elif defined(__AVX2__)
  return (Lanes)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(factor));
#elif defined(__x86_64__)
  return (Lanes)_mm_mul_epu32((__m128i)x, _mm_set1_epi64x(factor));
#else
  Lanes out;
  for (int i = 0; i < kWidth; ++i) out[i] = (x[i] & 0xffffffff) * factor;
  return out;
#endif
}

}  // namespace philox_detail

/// base/philox.h's philox(key, stream, index) for 16 indices from `first_index` on: word w of index
/// first_index + i is words[w * 16 + i].
inline void philox_lanes(std::uint64_t key, std::uint64_t stream, std::uint64_t first_index,
                         std::uint32_t* words) {
  using philox_detail::kWidth, philox_detail::Lanes, philox_detail::multiply_low;
  using Words = std::uint32_t __attribute__((vector_size(4 * kWidth)));
  constexpr int kVectors = kPhiloxLanes / kWidth;
  Lanes counter[kVectors][4];  // only the low halves count
  for (int v = 0; v < kVectors; ++v) {
    Lanes index;
    for (int i = 0; i < kWidth; ++i)
      index[i] = first_index + static_cast<std::uint64_t>(v * kWidth + i);
    counter[v][0] = index;
    counter[v][1] = index >> 32;
    counter[v][2] = Lanes{} + stream;
    counter[v][3] = Lanes{} + (stream >> 32);
  }
  std::uint32_t key0 = static_cast<std::uint32_t>(key),
                key1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
    for (auto& c : counter) {
      const Lanes a = multiply_low(c[0], 0xD2511F53), b = multiply_low(c[2], 0xCD9E8D57);
      c[0] = (b >> 32) ^ c[1] ^ std::uint64_t{key0};
      c[1] = b;
      c[2] = (a >> 32) ^ c[3] ^ std::uint64_t{key1};
      c[3] = a;
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int w = 0; w < 4; ++w)
    for (int v = 0; v < kVectors; ++v) {
      const Words low = __builtin_convertvector(counter[v][w], Words);
      std::memcpy(words + w * kPhiloxLanes + v * kWidth, &low, sizeof low);
    }
}

}  // namespace hgt
