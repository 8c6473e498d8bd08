#include "world.h"

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

constexpr Candidate kHere4{Candidate::State::kHere, 4}, kAway4{Candidate::State::kAway, 4},
    kCalled4{Candidate::State::kCalled, 4};
const std::vector<RankRange> kTwoOfFour{{0, 4}, {1, 4}};

}  // namespace

TEST_CASE("a spare takes exactly the range of the host that is away") {
  CHECK(with_spares(kTwoOfFour, {kHere4, kAway4, kHere4}) ==
        std::vector<RankRange>{{0, 4}, {2, 4}});
  CHECK(with_spares(kTwoOfFour, {kAway4, kHere4, kHere4}) ==
        std::vector<RankRange>{{2, 4}, {1, 4}});
}

TEST_CASE("each spare takes one range, the first spare the first range") {
  CHECK(with_spares(kTwoOfFour, {kAway4, kAway4, kHere4}) ==
        std::vector<RankRange>{{2, 4}, {1, 4}});
  CHECK(with_spares(kTwoOfFour, {kAway4, kAway4, kHere4, kHere4}) ==
        std::vector<RankRange>{{2, 4}, {3, 4}});
}

TEST_CASE("a host whose range a spare has taken is a spare when it is back") {
  const std::vector<RankRange> taken{{0, 4}, {2, 4}};
  CHECK(with_spares(taken, {kHere4, kHere4, kHere4}) == taken);
  CHECK(with_spares(taken, {kHere4, kHere4, kAway4}) == kTwoOfFour);
}

TEST_CASE("a host that may still answer keeps its range") {
  CHECK(with_spares(kTwoOfFour, {kHere4, kCalled4, kHere4}) == kTwoOfFour);
}

TEST_CASE("ranges of hosts that are away are left out if enough are here") {
  const std::vector<Candidate> hosts{kAway4, kHere4};
  CHECK(choose_world(kTwoOfFour, hosts, {.min_hosts = 1}) == std::vector<RankRange>{{1, 4}});
  CHECK(choose_world(kTwoOfFour, hosts, {.min_hosts = 2}).empty());
  CHECK(choose_world(kTwoOfFour, hosts, {}).empty());
  CHECK(choose_world(kTwoOfFour, {kHere4, kHere4}, {}) == kTwoOfFour);
}

TEST_CASE("a host that could not start its ranks keeps them only if no other can take them") {
  Candidate set_aside = kHere4;
  set_aside.was_set_aside = true;
  CHECK(with_spares(kTwoOfFour, {kHere4, set_aside, kHere4}) ==
        std::vector<RankRange>{{0, 4}, {2, 4}});
  CHECK(with_spares(kTwoOfFour, {kHere4, set_aside, set_aside}) == kTwoOfFour);
  CHECK(with_spares(kTwoOfFour, {kHere4, kAway4, set_aside}) ==
        std::vector<RankRange>{{0, 4}, {2, 4}});
}

TEST_CASE("rank 0 runs only on a host that sees the run folder") {
  Candidate sees_nothing = kHere4;
  sees_nothing.sees_run_folder = false;
  CHECK(choose_world(kTwoOfFour, {kHere4, sees_nothing}, {}) == kTwoOfFour);
  CHECK(choose_world(kTwoOfFour, {kAway4, sees_nothing}, {.min_hosts = 1}).empty());
  CHECK(choose_world(kTwoOfFour, {sees_nothing, kHere4}, {.min_hosts = 1}) ==
        std::vector<RankRange>{{1, 4}});
  CHECK(choose_world(kTwoOfFour, {sees_nothing, kHere4}, {}).empty());
  CHECK(with_spares(kTwoOfFour, {kAway4, kHere4, sees_nothing}) == kTwoOfFour);
  CHECK(with_spares(kTwoOfFour, {kHere4, kAway4, sees_nothing}) ==
        std::vector<RankRange>{{0, 4}, {2, 4}});
}

TEST_CASE("ranks are left out at the end until their number is valid") {
  const auto with = [](int valid) {
    return choose_world(kTwoOfFour, {kHere4, kHere4},
                        {.is_valid = [=](int ranks) { return ranks == valid; }});
  };
  CHECK(with(8) == kTwoOfFour);
  CHECK(with(6) == std::vector<RankRange>{{0, 4}, {1, 2}});
  CHECK(with(4) == std::vector<RankRange>{{0, 4}});
  CHECK(with(3) == std::vector<RankRange>{{0, 3}});
  CHECK(with(9).empty());
}

TEST_CASE("a spare that is away, is not here yet or has too little room takes nothing") {
  for (const Candidate& spare : {kAway4, kCalled4, Candidate{Candidate::State::kHere, 3}})
    CHECK(with_spares(kTwoOfFour, {kHere4, kAway4, spare}) == kTwoOfFour);
  CHECK(with_spares(kTwoOfFour, {kHere4, kAway4, {Candidate::State::kHere, 8}}) ==
        std::vector<RankRange>{{0, 4}, {2, 4}});
}
