#include "hgtrain/parallel/schedule.h"

namespace hgt {

std::vector<Bucket> make_buckets(std::span<const Range> blocks, std::int64_t bucket_elements) {
  std::vector<Bucket> buckets;
  for (int block = static_cast<int>(blocks.size()); block-- > 0;) {  // backward begins at the head
    const Range elements = blocks[static_cast<std::size_t>(block)];
    if (!buckets.empty() && buckets.back().elements.end - elements.begin <= bucket_elements)
      buckets.back() = {{elements.begin, buckets.back().elements.end}, block};
    else
      buckets.push_back({elements, block});
  }
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
