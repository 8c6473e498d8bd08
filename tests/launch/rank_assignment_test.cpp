#include "rank_assignment.h"

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

using State = Candidate::State;

/// Hosts a, b and so on in these states, each with a range of 2 ranks, except for the last, a
/// spare.
struct HostsAndSpare {
  explicit HostsAndSpare(const std::vector<State>& states) : hosts(states.size()) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      hosts[i].spec.name = std::string(1, static_cast<char>('a' + i));
      hosts[i].spec.workers = 2;
      hosts[i].state = states[i];
      if (i + 1 < hosts.size()) ranks.add_range(i, 2);
    }
  }
  std::vector<RosterHost> hosts;
  RankAssignment ranks{hosts};
};

}  // namespace

TEST_CASE("a spare takes the ranks of a host that is away, and the user is told once") {
  HostsAndSpare job({State::kHere, State::kAway, State::kHere});
  CHECK(job.ranks.has_range_of(State::kAway));
  CHECK(job.ranks.assign_spares() == std::vector<std::string>{"host c takes the ranks of host b"});
  CHECK(job.ranks.assign_spares().empty());
  CHECK_FALSE(job.ranks.has_range_of(State::kAway));
  REQUIRE(job.ranks.choose());
  CHECK(job.ranks.world() == std::vector<RankRange>{{0, 2}, {2, 2}});
  CHECK(job.ranks.runs_all());
  CHECK(job.ranks.runs_ranks(job.hosts[2]));
  CHECK_FALSE(job.ranks.runs_ranks(job.hosts[1]));
}

TEST_CASE("an attempt with fewer hosts can grow when another host is here") {
  HostsAndSpare job({State::kHere, State::kAway, State::kAway});
  CHECK_FALSE(job.ranks.choose());  // all are needed
  job.ranks.limit({.min_hosts = 1});
  REQUIRE(job.ranks.choose());
  CHECK(job.ranks.world() == std::vector<RankRange>{{0, 2}});
  CHECK_FALSE(job.ranks.runs_all());
  CHECK_FALSE(job.ranks.can_grow());
  for (const std::size_t back : {1, 2}) {
    job.hosts[back].state = State::kHere;
    CHECK(job.ranks.can_grow());
    job.hosts[back].state = State::kAway;
  }
}

TEST_CASE("hosts that have not answered are not counted on, but keep their ranks") {
  HostsAndSpare job({State::kHere, State::kCalled, State::kAway});
  CHECK_FALSE(job.ranks.could_run());
  job.ranks.limit({.min_hosts = 1});
  CHECK(job.ranks.could_run());
  CHECK(job.ranks.assign_spares().empty());
  CHECK(job.ranks.ranges() == std::vector<RankRange>{{0, 2}, {1, 2}});
}

TEST_CASE("a range without a number gets as many ranks as its host reports") {
  std::vector<RosterHost> hosts(1);
  RankAssignment ranks(hosts);
  ranks.add_range(0, 0);
  ranks.count_workers();
  CHECK(ranks.ranges() == std::vector<RankRange>{{0, 0}});
  hosts[0].spec.workers = 8;
  ranks.count_workers();
  CHECK(ranks.ranges() == std::vector<RankRange>{{0, 8}});
}
