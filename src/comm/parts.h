#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/parallel/shards.h"

namespace hgt {

/// Error(kInternal) unless `parts` are ascending, without gaps, cover `size` elements, and belong
/// to ranks of a group of that size.
void require_parts(std::span<const OwnedRange> parts, std::size_t size, int ranks);
/// A hash by which ranks find out whether they agree on the parts.
std::uint64_t hash_of(std::span<const OwnedRange> parts);

/// How many elements a rank's parts have.
std::uint64_t elements_of(std::span<const OwnedRange> parts, int rank);

/// Elements, and their place in a buffer that holds those of several ranks one after the other.
struct PackedPart {
  Range elements;
  OwnedRange packed;
};

/// What is left of each rank's parts in a collective that takes them in turns. Each turn takes some
/// elements of every rank's parts, so that all ranks have work.
class PartsLeft {
 public:
  PartsLeft(std::span<const OwnedRange> parts, int ranks);

  /// How many turns there will be if each takes at most `limit` elements of each rank.
  std::int64_t turns(std::int64_t limit) const;
  /// Takes the next elements of a rank, at most `limit`, in ascending order.
  std::vector<Range> take(int rank, std::int64_t limit);
  /// Takes the next elements of every rank, at most `limit` each, packed in the order of the ranks.
  std::vector<PackedPart> take_packed(std::int64_t limit);

 private:
  struct Rank {
    std::vector<Range> parts;
    std::size_t next = 0;  ///< the first part of which something is left
  };
  std::vector<Rank> ranks_;
};

}  // namespace hgt
