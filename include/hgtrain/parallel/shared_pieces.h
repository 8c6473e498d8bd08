#pragma once

#include <cstdint>

namespace hgt {

/// Ranks of one machine communicate through shared memory: how much a rank can write for the others
/// in a turn, and the number of turns whose pieces are there at once.
inline constexpr std::int64_t kSharedPieceBytes = 256 << 10;
inline constexpr std::int64_t kSharedTurns = 3;

/// A rank that sums 16-bit values in fp32 on a GPU has this much GPU memory for the values that it
/// receives from other ranks.
inline constexpr std::int64_t kReceivedBytes = std::int64_t{64} << 20;

}  // namespace hgt
