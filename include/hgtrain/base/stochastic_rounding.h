#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "hgtrain/base/philox.h"

namespace hgt {

// Rounding to bf16 up or down at random. The nearer neighbour is the more probable one, so that the
// expected value is the number itself. So the sum of many updates is not lost, even if each is too
// small to change a bf16 number.
// Sources: Gupta et al. 2015, arXiv:1502.02551; for bf16 parameters Zamirai et al. 2020,
// arXiv:2010.06192.

/// x rounded to bf16, as a float, with the lower 16 bits of `random`, which must be uniformly
/// distributed. Numbers that bf16 can represent do not change, nor do infinities; NaNs stay NaNs.
constexpr float round_stochastically(float x, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool finite = (bits & 0x7f800000) != 0x7f800000, nan = (bits & 0x7fffffff) > 0x7f800000;
  const std::uint32_t moved =
      finite ? bits + (random & 0xffff) : bits | (nan ? std::uint32_t{0x400000} : 0);
  return std::bit_cast<float>(moved & 0xffff0000);
}

/// The key of the random numbers with which update number `update` is rounded.
constexpr std::uint64_t rounding_key(std::uint64_t seed, std::int64_t update) {
  constexpr std::uint64_t kStream = 0x726f756e64696e67;  // "rounding": distinct from other uses
  return philox_key(seed, kStream, static_cast<std::uint64_t>(update));
}

/// The values that an update rounds. Each has its own random numbers.
enum class Rounded : std::uint64_t { kParameter, kState1, kState2 };

/// The number of elements whose random numbers come from one counter.
inline constexpr std::int64_t kRoundedByCounter = 8;

/// Philox's stream for these values of a parameter, whose own stream is `parameter`.
constexpr std::uint64_t rounding_stream(std::uint64_t parameter, Rounded what) {
  return parameter + static_cast<std::uint64_t>(what);
}

/// The random numbers of elements 8 counter, ..., 8 counter + 7 of the whole parameter.
constexpr std::array<std::uint32_t, 4> rounding_words(std::uint64_t key, std::uint64_t parameter,
                                                      Rounded what, std::int64_t counter) {
  return philox(key, rounding_stream(parameter, what), static_cast<std::uint64_t>(counter));
}

/// The number of an element among these: the lower half of each word comes first.
constexpr std::uint32_t rounding_number(const std::array<std::uint32_t, 4>& words,
                                        std::int64_t element) {
  const auto of_counter = static_cast<unsigned>(element % kRoundedByCounter);
  const std::uint32_t early = of_counter < 2 ? words[0] : words[1];
  const std::uint32_t late = of_counter < 6 ? words[2] : words[3];
  return (of_counter < 4 ? early : late) >> (of_counter % 2 * 16);
}

}  // namespace hgt
