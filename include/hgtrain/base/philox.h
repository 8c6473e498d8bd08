#pragma once

#include <array>
#include <cstdint>

namespace hgt {

/// Philox4x32-10, a counter-based generator: a pure function of (key, counter), no state.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
///
/// Every random number of hgtrain comes from it, keyed by what the number is for (seed, step,
/// sample, layer, element), so that no split of the work changes one.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key,
                                              std::array<std::uint32_t, 4> counter) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// The same with 64-bit words: the key is `seed`, the counter (stream, index).
constexpr std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream,
                                              std::uint64_t index) {
  return philox({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
                {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                 static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)});
}

/// A seed for numbers of one kind, drawn from another.
constexpr std::uint64_t philox_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = philox(seed, stream, index);
  return words[0] | std::uint64_t{words[1]} << 32;
}

/// Uniform in [0, 1), 24 bits.
constexpr float uniform01(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

}  // namespace hgt
