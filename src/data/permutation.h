#pragma once

#include <cstdint>

namespace hgt {

/// Where index `i` of [0, n) goes in the permutation of [0, n) keyed by (seed, epoch). A bijection
/// for every n >= 1, in O(1) time and no memory: a Feistel network over the smallest even number of
/// bits that holds n, rounds keyed by Philox, repeated until the result lies below n
/// (cycle-walking: Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
std::int64_t permute(std::uint64_t seed, std::uint64_t epoch, std::int64_t i, std::int64_t n);

}  // namespace hgt
