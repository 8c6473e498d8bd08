#include "permutation.h"

#include <algorithm>
#include <bit>

#include "hgtrain/base/philox.h"

namespace hgt {

namespace {

constexpr std::uint64_t kRounds = 8;

std::uint64_t feistel(std::uint64_t seed, std::uint64_t epoch, std::uint64_t value, int half_bits) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = left ^ (philox(seed, epoch, round << 32 | right)[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

}  // namespace

std::int64_t permute(std::uint64_t seed, std::uint64_t epoch, std::int64_t i, std::int64_t n) {
  // At least 64 values: over fewer, a Feistel network reaches but few of the permutations.
  const auto count = static_cast<std::uint64_t>(n);
  const int half_bits = std::max(3, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  auto value = static_cast<std::uint64_t>(i);
  do value = feistel(seed, epoch, value, half_bits);
  while (value >= count);
  return static_cast<std::int64_t>(value);
}

}  // namespace hgt
