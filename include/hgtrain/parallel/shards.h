#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

/// A part of the flat layout, and where its elements lie in the two kinds of buffers that a rank
/// has: those of all its blocks, and those of its shard alone.
struct Slice {
  Range elements;             ///< counted from the start of the flat layout
  std::int64_t local = 0;     ///< place of the first one in buffers of all the rank's blocks
  std::int64_t in_shard = 0;  ///< its place in the shard of the rank that owns it
  bool operator==(const Slice&) const = default;

  /// The part of the slice that has these elements.
  Slice part(Range of_elements) const {
    const std::int64_t skipped = of_elements.begin - elements.begin;
    return {of_elements, local + skipped, in_shard + skipped};
  }
};

/// A part of a buffer and the rank that owns it.
struct OwnedRange {
  Range elements;
  int rank = 0;
  bool operator==(const OwnedRange&) const = default;
};

/// An equal part of `total` elements for each rank, as even_range cuts them.
std::vector<OwnedRange> even_parts(std::int64_t total, int ranks);

/// The same parts of a buffer with elements of `size` bytes, for collectives that count bytes.
std::vector<OwnedRange> counted_in_bytes(std::vector<OwnedRange> parts, std::int64_t size);

/// How the flat buffers are divided among the ranks of a data-parallel group. Every rank owns a
/// contiguous part, perhaps an empty one, of every block, in the order of the ranks; its shard is
/// these parts one after the other. Blocks are cut at multiples of kChunk from their beginning, so
/// that each chunk has one owner, and the result of a step does not depend on the cuts. Sources:
/// Rajbhandari et al. 2020, arXiv:1910.02054 (ZeRO); Zhao et al. 2023, arXiv:2304.11277 (FSDP,
/// which shards block by block).
class Sharding {
 public:
  static constexpr std::int64_t kChunk = 1 << 14;

  /// `blocks` are the elements of each block of the group's ranks, in ascending order. `shares` has
  /// a number per rank: how much it owns in proportion to the others; a rank may own nothing.
  Sharding(std::span<const Range> blocks, std::span<const double> shares);
  /// Equal shares.
  Sharding(std::span<const Range> blocks, int ranks);

  int ranks() const { return static_cast<int>(slices_.size()); }
  /// The slices of a rank, in ascending order; none is empty.
  std::span<const Slice> slices(int rank) const;
  /// The elements of a rank's shard.
  std::int64_t shard_elements(int rank) const;
  /// Which rank owns which elements of `local`, a range of the buffers in which all blocks follow
  /// one another. The result is in ascending order without gaps, counted from the beginning of
  /// `local`.
  std::vector<OwnedRange> owners(Range local) const;

 private:
  std::vector<std::vector<Slice>> slices_;  ///< by rank
  std::vector<OwnedRange> owners_;          ///< of the buffers of all the blocks
};

}  // namespace hgt
