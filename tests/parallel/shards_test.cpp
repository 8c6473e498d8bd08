#include "hgtrain/parallel/shards.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

std::vector<Range> blocks_of(const std::vector<std::int64_t>& sizes) {
  std::vector<Range> out;
  for (const std::int64_t size : sizes) {
    const std::int64_t begin = out.empty() ? 0 : out.back().end;
    out.push_back({begin, begin + size});
  }
  return out;
}

/// Every element has one owner, a shard has its slices side by side, and cuts within a block lie at
/// multiples of the chunk.
void check_shards(const std::vector<Range>& blocks, const Sharding& sharding) {
  std::vector<Range> all;
  for (int rank = 0; rank < sharding.ranks(); ++rank) {
    std::int64_t local = 0;
    for (const Slice& slice : sharding.slices(rank)) {
      CHECK(slice.elements.size() > 0);
      CHECK(slice.in_shard == local);
      local += slice.elements.size();
      all.push_back(slice.elements);
      const auto block = std::ranges::find_if(
          blocks, [&](const Range& b) { return slice.elements.begin < b.end; });
      CHECK((slice.elements.begin - block->begin) % Sharding::kChunk == 0);
      CHECK(slice.elements.end <= block->end);
    }
    CHECK(sharding.shard_elements(rank) == local);
  }
  std::ranges::sort(all, {}, &Range::begin);
  std::int64_t next = 0;
  for (const Range& range : all) {
    CHECK(range.begin == next);
    next = range.end;
  }
  CHECK(next == blocks.back().end);
}

}  // namespace

TEST_CASE("every element has one owner, whatever the blocks, ranks and shares are") {
  constexpr std::int64_t kChunk = Sharding::kChunk;
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {64}, {64, 128, 64}, {10 * kChunk, 3 * kChunk + 64, kChunk - 64, 17 * kChunk}}) {
    const std::vector<Range> blocks = blocks_of(sizes);
    for (int ranks : {1, 2, 3, 8}) check_shards(blocks, Sharding(blocks, ranks));
    check_shards(blocks, Sharding(blocks, std::vector{3.0, 0.0, 1.0}));
  }
}

TEST_CASE("equal shares differ by at most a chunk per rank, however small the blocks are") {
  const std::vector<Range> blocks = blocks_of(std::vector<std::int64_t>(50, 3 * Sharding::kChunk));
  for (int ranks : {2, 4, 7}) {
    const Sharding sharding(blocks, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const double chunks = 150.0 / ranks;
      CHECK(std::abs(static_cast<double>(sharding.shard_elements(rank)) / Sharding::kChunk -
                     chunks) <= ranks);
    }
  }
}

TEST_CASE("unequal shares divide in their proportion, and a rank may own nothing") {
  const std::vector<Range> blocks = blocks_of({400 * Sharding::kChunk, 400 * Sharding::kChunk});
  const Sharding sharding(blocks, std::vector{3.0, 1.0, 0.0});
  CHECK(sharding.shard_elements(0) == 600 * Sharding::kChunk);
  CHECK(sharding.shard_elements(1) == 200 * Sharding::kChunk);
  CHECK(sharding.slices(2).empty());
}

TEST_CASE("blocks that are not neighbours in the model are neighbours in a rank's buffers") {
  constexpr std::int64_t kChunk = Sharding::kChunk;
  const std::vector<Range> blocks{{0, 2 * kChunk}, {5 * kChunk, 9 * kChunk}};
  const Sharding sharding(blocks, 2);
  CHECK(sharding.slices(1)[0] == Slice{{kChunk, 2 * kChunk}, kChunk, 0});
  CHECK(sharding.slices(1)[1] == Slice{{7 * kChunk, 9 * kChunk}, 4 * kChunk, kChunk});
  CHECK(sharding.slices(1)[1].part({8 * kChunk, 9 * kChunk}) ==
        Slice{{8 * kChunk, 9 * kChunk}, 5 * kChunk, 2 * kChunk});
  CHECK(sharding.owners({0, 6 * kChunk}) == std::vector<OwnedRange>{{{0, kChunk}, 0},
                                                                    {{kChunk, 2 * kChunk}, 1},
                                                                    {{2 * kChunk, 4 * kChunk}, 0},
                                                                    {{4 * kChunk, 6 * kChunk}, 1}});
  CHECK(Sharding(blocks, 1).owners({0, 6 * kChunk}) ==
        std::vector<OwnedRange>{{{0, 6 * kChunk}, 0}});
}

TEST_CASE("the owners of a range of blocks are counted from its beginning") {
  constexpr std::int64_t kChunk = Sharding::kChunk;
  const std::vector<Range> blocks = blocks_of({2 * kChunk, 4 * kChunk, 2 * kChunk});
  const Sharding sharding(blocks, 2);
  CHECK(sharding.owners({2 * kChunk, 8 * kChunk}) ==
        std::vector<OwnedRange>{{{0, 2 * kChunk}, 0},
                                {{2 * kChunk, 4 * kChunk}, 1},
                                {{4 * kChunk, 5 * kChunk}, 0},
                                {{5 * kChunk, 6 * kChunk}, 1}});
}
