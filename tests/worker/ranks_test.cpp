#include "ranks.h"

#include <stdexcept>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

using namespace hgt;

namespace {

Config config_on(const std::string& device, const std::string& backend = "auto") {
  Config config;
  config.hardware.device = device;
  config.distributed.backend = backend;
  return config;
}

}  // namespace

TEST_CASE("a worker on the CPU has no queue of a GPU") {
  CHECK(open_device(config_on("cpu"), {}) == nullptr);
}

TEST_CASE("a worker for which there is no GPU is refused") {
  const Environment last{.rank = 4095, .local_rank = 4095, .world_size = 4096};
  try {
    open_device(config_on("cuda"), last);
    FAIL("it must be refused");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    CHECK_FALSE(e.hint().empty());
  }
}

TEST_CASE("a worker on its own needs no backend, several on the CPU refuse NCCL") {
  const auto channel = ControlChannel::open({});
  const Config config = config_on("cpu", "nccl");
  const Connection alone = connect_ranks(*channel, config, {}, nullptr);
  CHECK(alone.communicator->size() == 1);
  CHECK(alone.backend_name.empty());
  const Environment first{.rank = 0, .local_rank = 0, .world_size = 2};
  CHECK_THROWS_WITH(connect_ranks(*channel, config, first, nullptr),
                    "distributed.backend = \"nccl\" needs GPUs");
}

TEST_CASE("the status of a rank is that of the error which ends it") {
  CHECK(run_rank([](ControlChannel&) {}) == 0);
  CHECK(run_rank([](ControlChannel&) { throw Error(ErrorKind::kCheck, "NaN"); }) == 5);
  CHECK(run_rank([](ControlChannel&) { throw std::bad_alloc(); }) == 3);
  CHECK(run_rank([](ControlChannel&) { throw std::runtime_error("x"); }) == 1);
}

TEST_CASE("a network that NCCL leaves idle is named") {
  Network network;
  network.infiniband.push_back({"mlx5_0", 1, "DOWN", "400 Gb/sec (4X NDR)", "InfiniBand"});
  CHECK(slower_network({"NET/Socket", "P2P"}, network) == "");
  network.infiniband.push_back({"mlx5_1", 2, "ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand"});
  CHECK(slower_network({"NET/IB", "P2P"}, network) == "");
  CHECK_THAT(slower_network({"NET/Socket", "P2P"}, network),
             Catch::StartsWith("NCCL took NET/Socket, though port 2 of mlx5_1 (InfiniBand, 400 "
                               "Gb/sec (4X NDR)) is active"));
}
