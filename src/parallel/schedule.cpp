#include "hgtrain/parallel/schedule.h"

#include <algorithm>

namespace hgt {

std::vector<Bucket> make_buckets(std::span<const BlockRange> pieces, std::int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  for (std::size_t i = pieces.size(); i-- > 0;) {  // backward runs from the highest block down
    const BlockRange& piece = pieces[i];
    const bool same_group = i + 1 < pieces.size() && piece.block <= pieces[i + 1].block;
    if (same_group && buckets.back().elements.size() + piece.elements.size() <= bucket_elements) {
      buckets.back().elements.begin = piece.elements.begin;
      buckets.back().last_block = piece.block;
    } else {
      buckets.push_back({piece.elements, piece.block});
    }
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Bucket& a, const Bucket& b) { return a.last_block > b.last_block; });
  return buckets;
}

std::vector<Action> data_parallel_schedule(int blocks, std::int64_t micro_batches,
                                           std::span<const Bucket> buckets) {
  using Kind = Action::Kind;
  std::vector<Action> actions;
  int reduced = 0;
  const auto reduce_down_to = [&](int block) {
    for (; reduced < static_cast<int>(buckets.size()) && buckets[reduced].last_block >= block;
         ++reduced)
      actions.push_back({.kind = Kind::kReduce, .bucket = reduced});
  };
  for (int micro = 0; micro < micro_batches; ++micro) {
    for (int block = 0; block < blocks; ++block)
      actions.push_back({.kind = Kind::kForward, .block = block, .micro = micro});
    for (int block = blocks; block-- > 0;) {
      actions.push_back({.kind = Kind::kBackward, .block = block, .micro = micro});
      if (micro + 1 == micro_batches) reduce_down_to(block);
    }
  }
  reduce_down_to(0);
  actions.push_back({.kind = Kind::kUpdate});
  return actions;
}

}  // namespace hgt
