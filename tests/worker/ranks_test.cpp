#include "ranks.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/config/config.h"
#include "hgtrain/ops/cuda_ops_table.h"

#include "support/fake_cuda.h"
#include "support/ranks.h"
#include "train/tiny_config.h"

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

namespace {

/// A small job on GPUs, in bf16 or fp32.
Config small_job(bool bf16) {
  Config config = tiny_config();
  config.hardware.device = "cuda";
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 4, .micro_batch_size = 2, .gradient_accumulation_steps = 1};
  config.precision.bf16 = bf16;
  return config;
}

/// Keeps the notices of a rank.
struct Notices final : MemoryChannel {
  void send(const std::string& kind, const nlohmann::json& body) override {
    texts.push_back(kind + ": " + body.at("text").get<std::string>());
  }
  std::vector<std::string> texts;
};

/// A module with two GPUs, of which the second has half as much memory, and whose cuDNN refuses.
CudaModule two_gpus() {
  static CudaDeviceTable device = fake_cuda::device_table();
  device.memory_info = [](int index, std::uint64_t* free, std::uint64_t* total) -> CudaResult {
    *free = *total = std::uint64_t{1} << (40 - index);
    return nullptr;
  };
  static CudaOpsTable ops{};
  ops.use_cudnn = [](void*, const CudnnOptions*, CudaStreamState*, std::size_t*) -> CudaResult {
    static const CudaFailure failure{static_cast<int>(ErrorKind::kDevice), "too old", "", ""};
    return &failure;
  };
  static const CudaTables tables{0, "fake", &device, &ops, nullptr};
  return CudaModule(tables);
}

}  // namespace

TEST_CASE("all ranks plan with the memory of the smallest GPU") {
  const CudaModule module = two_gpus();
  Notices channel;
  std::int64_t planned[2] = {};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Config config = small_job(false);
      const Environment environment{.rank = rank, .local_rank = rank, .world_size = 2};
      plan_device(config, environment, channel, CudaQueue(Device::cuda(rank), module));
      planned[rank] = config.hardware.gpu_bytes;
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK(planned[0] == std::int64_t{1} << 39);
  CHECK(planned[1] == planned[0]);
  CHECK(channel.texts.empty());  // attention in fp32 needs no cuDNN
}

TEST_CASE("the first rank of each host tells the user if attention lacks cuDNN") {
  const CudaModule module = two_gpus();
  Notices channel;
  Config config = small_job(true);
  plan_device(config, {}, channel, CudaQueue(Device::cuda(0), module));
  CHECK(config.hardware.gpu_bytes == std::int64_t{1} << 40);
  REQUIRE(channel.texts.size() == 1);
  CHECK_THAT(channel.texts[0],
             Catch::StartsWith("notice: attention backend: own kernels (no cuDNN: "));

  plan_device(config, {.local_rank = 1}, channel, CudaQueue(Device::cuda(0), module));
  CHECK(channel.texts.size() == 1);
  plan_device(config, {.num_hosts = 2}, channel, CudaQueue(Device::cuda(0), module));
  REQUIRE(channel.texts.size() == 2);
  CHECK_THAT(channel.texts[1], Catch::StartsWith("notice: on " + host_name() + ": attention"));
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

TEST_CASE("ranks end connecting for saves once the job is aborted") {
  MemoryChannel channel;
  channel.set("comm/saves/endpoint of 1", "127.0.0.1 1 " + std::string(64, 'a'));
  const Environment first{.rank = 0, .local_rank = 0, .world_size = 2};
  const std::atomic<bool> aborted = true;
  CHECK_THROWS_WITH(connect_save_group(channel, config_on("cpu", "gloo"), first, &aborted),
                    "communication was aborted, because the job is ending");
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
