#include "hgtrain/parallel/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include <catch2/catch.hpp>

using namespace hgt;
using Kind = Action::Kind;

namespace {

constexpr int kBlocks = 5;

/// An embedding of twenty elements, three layers of ten, and a head of five.
std::vector<Range> some_blocks() {
  return {{0, 20}, {20, 30}, {30, 40}, {40, 50}, {50, 55}};
}

/// The rules of any schedule, whatever the order of its micro-batches.
void check_schedule(const std::vector<Action>& actions, const std::vector<Bucket>& buckets,
                    int micro_batches) {
  std::map<std::pair<int, int>, int> forward, backward;  // (micro, block) -> position
  std::map<int, int> reduce;
  for (int at = 0; at < static_cast<int>(actions.size()); ++at) {
    const Action& a = actions[at];
    const std::pair key{a.micro, a.block};
    if (a.kind == Kind::kForward) CHECK(forward.emplace(key, at).second);
    if (a.kind == Kind::kBackward) CHECK(backward.emplace(key, at).second);
    if (a.kind == Kind::kReduce) CHECK(reduce.emplace(a.bucket, at).second);
  }
  CHECK(forward.size() == std::size_t(micro_batches) * kBlocks);
  CHECK(backward.size() == forward.size());
  for (const auto& [key, at] : backward) {
    CHECK(forward.at(key) < at);
    if (key.second + 1 < kBlocks) {
      CHECK(forward.at(key) < forward.at({key.first, key.second + 1}));
      CHECK(backward.at({key.first, key.second + 1}) < at);
    }
  }
  REQUIRE(reduce.size() == buckets.size());
  for (const auto& [bucket, at] : reduce)
    for (int micro = 0; micro < micro_batches; ++micro)
      CHECK(backward.at({micro, buckets[bucket].last_block}) < at);
  CHECK(actions.back().kind == Kind::kUpdate);
}

}  // namespace

TEST_CASE("buckets cover the flat buffer once, and none is ready before its lowest block") {
  const auto blocks = some_blocks();
  for (std::int64_t size : {1, 10, 15, 20, 1000}) {
    const auto buckets = make_buckets(blocks, size);
    std::vector<int> covered(55, 0);
    for (const Bucket& bucket : buckets) {
      for (std::int64_t i = bucket.elements.begin; i < bucket.elements.end; ++i) ++covered[i];
      CHECK(bucket.elements.begin == blocks[static_cast<std::size_t>(bucket.last_block)].begin);
    }
    CHECK(covered == std::vector<int>(55, 1));
    CHECK(std::is_sorted(buckets.begin(), buckets.end(),
                         [](auto& a, auto& b) { return a.last_block > b.last_block; }));
  }
}

TEST_CASE("buckets are at most as large as asked and become ready during backward") {
  const auto buckets = make_buckets(some_blocks(), 15);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].elements == Range{40, 55});
  CHECK(buckets[0].last_block == 3);
  CHECK(buckets[1].elements == Range{30, 40});
  CHECK(buckets[2].elements == Range{20, 30});
  CHECK(buckets[3].elements == Range{0, 20});  // one block, larger than asked
  CHECK(buckets[3].last_block == 0);
}

TEST_CASE("a data-parallel schedule computes everything in order and reduces each bucket once") {
  const auto buckets = make_buckets(some_blocks(), 20);
  for (int micro_batches : {0, 1, 3})
    check_schedule(data_parallel_schedule(kBlocks, micro_batches, buckets), buckets, micro_batches);
}

TEST_CASE(
    "no bucket is reduced between accumulated micro-batches, and the first before backward ends") {
  const auto buckets = make_buckets(some_blocks(), 20);
  const auto actions = data_parallel_schedule(kBlocks, 2, buckets);
  const auto first_reduce = std::find_if(actions.begin(), actions.end(),
                                         [](const Action& a) { return a.kind == Kind::kReduce; });
  CHECK(std::none_of(first_reduce, actions.end(), [](const Action& a) {
    return a.kind == Kind::kForward || a.micro == 0 && a.kind == Kind::kBackward;
  }));
  CHECK(std::count_if(first_reduce, actions.end(),
                      [](const Action& a) { return a.kind == Kind::kBackward; }) == 3);
}

TEST_CASE("ranks with different shares reduce the same buckets in the same order") {
  const auto buckets = make_buckets(some_blocks(), 10);
  const auto reduces = [&](int micro_batches) {
    std::vector<int> order;
    for (const Action& a : data_parallel_schedule(kBlocks, micro_batches, buckets))
      if (a.kind == Kind::kReduce) order.push_back(a.bucket);
    return order;
  };
  CHECK(reduces(0) == reduces(1));
  CHECK(reduces(1) == reduces(4));
}
