#include "hgtrain/comm/groups.h"

#include <algorithm>
#include <map>
#include <optional>

#include <catch2/catch.hpp>
#include <fmt/format.h>

using namespace hgt;

namespace {

std::string names(const Layout& layout, int rank, bool tied = false) {
  std::string out;
  for (const GroupOfRanks& group : groups_of(layout, rank, tied))
    if (!group.members.empty()) out += group.name + ", ";
  return out;
}

/// How many groups all ranks connect one after the other, if at each place those of all ranks share
/// none, and each rank is in its own.
std::size_t turns(const Layout& layout, bool tied) {
  const std::size_t count = groups_of(layout, 0, tied).size();
  std::vector<std::map<int, std::string>> names(count);  // of each member at each place
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const std::vector<GroupOfRanks> groups = groups_of(layout, rank, tied);
    REQUIRE(groups.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      if (groups[i].members.empty()) continue;
      CHECK(std::ranges::count(groups[i].members, rank) == 1);
      for (const int member : groups[i].members)
        CHECK(names[i].try_emplace(member, groups[i].name).first->second == groups[i].name);
    }
  }
  return count;
}

}  // namespace

TEST_CASE("plain data parallelism needs no groups besides the world") {
  CHECK(names({.data_size = 4}, 2, true) == "");
}

TEST_CASE("a rank is in a group along each axis that it shares") {
  const Layout layout{.pipeline_size = 3, .data_size = 2, .tensor_size = 2};
  CHECK(names(layout, 0) == "data 0-2, tensor 0-1, forward 0-4, backward 4-0, ");
  CHECK(names(layout, 5) ==
        "data 5-7, tensor 4-5, forward 1-5, backward 5-1, forward 5-9, backward 9-5, ");
  CHECK(names(layout, 0, true) == names(layout, 0) + "tied 0-8, ");
  CHECK(names(layout, 4, true) == names(layout, 4));
  CHECK(names(layout, 8, true) == names(layout, 8) + "tied 0-8, ");
}

TEST_CASE("context ranks are in the group of those that have the same part of the model") {
  CHECK(names({.context_size = 2}, 1) == "context 0-1, ");
  const Layout layout{.pipeline_size = 2, .data_size = 2, .context_size = 2, .tensor_size = 2};
  CHECK(names(layout, 3) == "data 1-3-5-7, context 1-3, tensor 2-3, forward 3-11, backward 11-3, ");
}

TEST_CASE("both directions between two stages are groups of their own") {
  const Layout layout{.pipeline_size = 2};
  CHECK(names(layout, 0) == "data 0, forward 0-1, backward 1-0, ");
  CHECK(names(layout, 1) == "data 1, forward 0-1, backward 1-0, ");
}

TEST_CASE("of the groups, only that which sums gradients rounds 16-bit sums once over NCCL") {
  for (const bool wanted : {false, true})
    for (const GroupOfRanks& group : groups_of({.data_size = 2, .tensor_size = 2}, 0, false))
      CHECK(group.options({.rounds_once = wanted}).rounds_once ==
            (wanted && group.place == &Groups::data));
}

TEST_CASE("a link between stages names the other one") {
  for (const GroupOfRanks& group : groups_of({.pipeline_size = 3, .tensor_size = 2}, 2, false)) {
    std::optional<int> stage;
    if (group.place == &Groups::input || group.place == &Groups::input_gradient) stage = 0;
    if (group.place == &Groups::output || group.place == &Groups::output_gradient) stage = 2;
    CHECK(group.options({}).peer_stage == stage);
  }
}

TEST_CASE("an interleaved pipeline is a ring") {
  const Layout two{.pipeline_size = 2, .virtual_stages = 2};
  for (const int rank : {0, 1})
    CHECK(names(two, rank) == fmt::format("data {}, forward 0-1, backward 1-0, forward 1-0, "
                                          "backward 0-1, ",
                                          rank));
  for (const GroupOfRanks& group : groups_of(two, 1, false))
    if (group.name == "forward 1-0") CHECK(group.place == &Groups::output);
  const Layout three{.pipeline_size = 3, .virtual_stages = 2};
  CHECK(names(three, 0) == "data 0, forward 0-1, backward 1-0, forward 2-0, backward 0-2, ");
}

TEST_CASE("groups that share no rank are connected together, in one order of all ranks") {
  CHECK(turns({.data_size = 4}, true) == 0);
  CHECK(turns({.data_size = 2, .context_size = 2, .tensor_size = 2}, false) == 3);
  // Data, and both directions of the links of even numbers and of odd ones.
  CHECK(turns({.pipeline_size = 2}, false) == 1 + 2);
  CHECK(turns({.pipeline_size = 3}, false) == 1 + 4);
  CHECK(turns({.pipeline_size = 8, .data_size = 2, .tensor_size = 2}, true) == 2 + 4 + 1);
  CHECK(turns({.pipeline_size = 2, .virtual_stages = 2}, false) == 1 + 4);
  CHECK(turns({.pipeline_size = 4, .virtual_stages = 2}, true) == 1 + 4 + 1);
  for (const int stages : {3, 5, 7})  // the last link of such a ring meets the first one
    CHECK(turns({.pipeline_size = stages, .virtual_stages = 3}, false) == 1 + 6);
}
