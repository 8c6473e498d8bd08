#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "hgtrain/base/philox.h"

namespace hgt {

// Rounding to bf16 up or down by chance, the nearer the likelier, so that the expected value is the
// number itself: what many updates too small for a bf16 number add up to is then not lost.
// Sources: Gupta et al. 2015, arXiv:1502.02551; of bf16 parameters Zamirai et al. 2020,
// arXiv:2010.06192.

/// x rounded to bf16, as a float, by the lower 16 bits of `random`, each of which is even. Numbers
/// that bf16 has stay; infinities and NaNs too.
constexpr float round_stochastically(float x, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool finite = (bits & 0x7f800000) != 0x7f800000, nan = (bits & 0x7fffffff) > 0x7f800000;
  const std::uint32_t moved =
      finite ? bits + (random & 0xffff) : bits | (nan ? std::uint32_t{0x400000} : 0);
  return std::bit_cast<float>(moved & 0xffff0000);
}

/// The key of the numbers that update number `update` is rounded by.
constexpr std::uint64_t rounding_key(std::uint64_t seed, std::int64_t update) {
  constexpr std::uint64_t kStream = 0x726f756e64696e67;  // "rounding": apart from other numbers
  return philox_key(seed, kStream, static_cast<std::uint64_t>(update));
}

/// What an update rounds, which each have numbers of their own.
enum class Rounded : std::uint64_t { kParameter, kState1, kState2 };

/// Elements whose numbers one counter gives.
inline constexpr std::int64_t kRoundedByCounter = 8;

/// The numbers of elements 8 counter, ..., 8 counter + 7: the lower half of each word first.
constexpr std::array<std::uint32_t, 4> rounding_words(std::uint64_t key, Rounded what,
                                                      std::int64_t counter) {
  return philox(key, static_cast<std::uint64_t>(what), static_cast<std::uint64_t>(counter));
}

}  // namespace hgt
