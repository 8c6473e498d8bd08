#include "hgtrain/parallel/shards.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hgt {
namespace {

/// Shares are summed with rounding errors: 2.9999999 chunks are 3.
constexpr double kTolerance = 1e-6;

}  // namespace

std::vector<OwnedRange> even_parts(std::int64_t total, int ranks) {
  std::vector<OwnedRange> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back({even_range(total, ranks, rank), rank});
  return out;
}

std::vector<OwnedRange> counted_in_bytes(std::vector<OwnedRange> parts, std::int64_t size) {
  for (OwnedRange& part : parts)
    part.elements = {part.elements.begin * size, part.elements.end * size};
  return parts;
}

Sharding::Sharding(std::span<const Range> blocks, std::span<const double> shares)
    : slices_(shares.size()) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  // Rounding is carried from block to block, so that small blocks do not all fall to one rank.
  // before[r]: the chunks of the blocks so far that ranks below r own.
  std::vector<std::int64_t> before(shares.size() + 1, 0);
  std::int64_t chunks = 0, elements_before = 0;  // of the blocks so far
  for (const Range& block : blocks) {
    const std::int64_t count = (block.size() + kChunk - 1) / kChunk;
    chunks += count;
    std::int64_t begin = 0;
    double share = 0;
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      share += shares[rank] / total;
      const auto wanted =
          static_cast<std::int64_t>(std::floor(share * static_cast<double>(chunks) + kTolerance));
      const std::int64_t end =
          rank + 1 == shares.size() ? count : std::clamp(wanted - before[rank + 1], begin, count);
      before[rank + 1] += end;
      const Range elements{block.begin + begin * kChunk,
                           std::min(block.begin + end * kChunk, block.end)};
      begin = end;
      if (elements.begin >= elements.end) continue;
      const int owner = static_cast<int>(rank);
      const std::int64_t local = elements_before + elements.begin - block.begin;
      slices_[rank].push_back({elements, local, shard_elements(owner)});
      if (!owners_.empty() && owners_.back().rank == owner)
        owners_.back().elements.end = local + elements.size();
      else
        owners_.push_back({{local, local + elements.size()}, owner});
    }
    elements_before += block.size();
  }
}

Sharding::Sharding(std::span<const Range> blocks, int ranks)
    : Sharding(blocks, std::vector<double>(static_cast<std::size_t>(ranks), 1.0)) {}

std::span<const Slice> Sharding::slices(int rank) const {
  return slices_[static_cast<std::size_t>(rank)];
}

std::int64_t Sharding::shard_elements(int rank) const {
  const std::span<const Slice> all = slices(rank);
  return all.empty() ? 0 : all.back().in_shard + all.back().elements.size();
}

std::vector<OwnedRange> Sharding::owners(Range local) const {
  std::vector<OwnedRange> out;
  for (const auto& [owned, rank] : owners_) {
    const Range common{std::max(owned.begin, local.begin), std::min(owned.end, local.end)};
    if (common.begin < common.end)
      out.push_back({{common.begin - local.begin, common.end - local.begin}, rank});
  }
  return out;
}

}  // namespace hgt
