#include "placement.h"

#include <catch2/catch.hpp>

#include "support/refusal.h"

using namespace hgt;

namespace {

RosterHost host(const std::string& machine, int gpus = 0) {
  RosterHost out;
  out.machine = machine;
  out.gpus = gpus;
  return out;
}

/// Hosts of the given machines, each with `workers` ranks.
struct World {
  World(const std::vector<std::string>& machines, int workers, int gpus = 0) {
    for (const std::string& machine : machines) {
      ranges.push_back({hosts.size(), workers});
      hosts.push_back(host(machine, gpus));
      hosts.back().spec.name = "h" + std::to_string(hosts.size() - 1);
    }
  }
  std::vector<HostRanks> placed() const { return place_ranks(hosts, ranges); }
  std::string master() const { return find_master_address(hosts, ranges); }

  std::vector<RosterHost> hosts;
  std::vector<RankRange> ranges;
};

}  // namespace

TEST_CASE("ranks are numbered host by host, and a host gets devices for its ranks only") {
  World world({"", ""}, 2);
  world.hosts[1].spec.devices = {"4", "5", "6"};
  world.hosts[1].spec.workers = 3;
  const auto placed = world.placed();
  REQUIRE(placed.size() == 2);
  CHECK(placed[1].first_rank == 2);
  CHECK(placed[1].num_ranks == 2);
  CHECK(placed[1].spec.workers == 2);
  CHECK(placed[1].spec.devices == std::vector<std::string>{"4", "5"});
  CHECK(placed[1].machine == 1);
  CHECK(placed[1].first_local_rank == 0);
  CHECK(placed[1].local_size == 2);
}

TEST_CASE("tasks of one machine share its local ranks") {
  const auto placed = World({"m", "n", "m"}, 2).placed();
  CHECK(placed[0].machine == 0);
  CHECK(placed[1].machine == 1);
  CHECK(placed[2].machine == 0);
  CHECK(placed[2].first_local_rank == 2);
  CHECK(placed[2].local_size == 4);
  CHECK(placed[1].local_size == 2);
}

TEST_CASE("tasks that see their own GPUs alone count them from 0") {
  CHECK(World({"m", "m"}, 1, 1).placed()[1].first_local_rank == 0);
  CHECK(World({"m", "m"}, 1, 2).placed()[1].first_local_rank == 1);
}

TEST_CASE("the other hosts find the first at its address, or else where ssh reached it") {
  World world({"", ""}, 1);
  world.hosts[0].address = "10.0.0.1";
  CHECK(world.master() == "10.0.0.1");
  world.hosts[0].spec.address = "head";
  CHECK(world.master() == "head");
  world.hosts[0].spec.address = "";
  world.hosts[0].spec.interface = "ib0";
  CHECK(world.master() == "");
}

TEST_CASE("a host alone finds itself; an address that others cannot use is refused") {
  CHECK(World({""}, 2).master() == "127.0.0.1");
  World world({"", ""}, 1);
  CHECK(has(refusal([&] { world.master(); }), "ssh reaches host h0 at an unknown address"));
  world.hosts[0].spec.address = "127.0.0.1";
  CHECK(has(refusal([&] { world.master(); }), "the workers look for host h0 at 127.0.0.1"));
}

TEST_CASE("nodes have dialled an address of the network if one of them is elsewhere") {
  World world({"", "", ""}, 1);
  CHECK(dialled_address(world.hosts) == "127.0.0.1");
  world.hosts[1].our_address = "127.0.0.1";
  CHECK(dialled_address(world.hosts) == "127.0.0.1");
  world.hosts[2].our_address = "10.0.0.1";
  CHECK(dialled_address(world.hosts) == "10.0.0.1");
}
