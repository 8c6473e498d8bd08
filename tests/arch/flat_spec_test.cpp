#include "hgtrain/arch/flat_spec.h"

#include <catch2/catch.hpp>

#include "hgtrain/config/config.h"

using namespace hgt;

namespace {

Config bf16_with_masters() {
  Config config;
  config.precision.bf16 = true;
  config.optimizer.type = "AdamW";
  return config;
}

}  // namespace

TEST_CASE("ZeRO's stages split state and masters, then gradients, then weights") {
  const Config config = bf16_with_masters();
  for (const int stage : {0, 1, 2, 3}) {
    const FlatSpec spec = flat_spec(config, stage, true);
    CHECK(spec.parameters.dtype == DType::kF32);
    CHECK(spec.parameters.sharded == (stage >= 1));
    REQUIRE(spec.state.size() == 2);
    CHECK(spec.state[1].name == "exp_avg_sq");
    CHECK(spec.state[1].sharded == (stage >= 1));
    CHECK(spec.gradients.sharded == (stage >= 2));
    REQUIRE(spec.rounded);
    CHECK(spec.rounded->dtype == DType::kBF16);
    CHECK(spec.rounded->sharded == (stage >= 3));
    CHECK_FALSE(spec.sent);
    CHECK_FALSE(spec.ema);
  }
}

TEST_CASE("parameters without masters are split like weights") {
  CHECK_FALSE(flat_spec({}, 2, false).parameters.sharded);
  CHECK(flat_spec({}, 3, false).parameters.sharded);
  CHECK_FALSE(flat_spec({}, 3, false).rounded);
}

TEST_CASE("an offloaded optimizer works in host memory, and the GPU has a copy of the weights") {
  Config config = bf16_with_masters();
  config.zero.offload_optimizer = "cpu";
  config.training.ema_decay = 0.9;
  const FlatSpec spec = flat_spec(config, 1, true);
  CHECK(spec.parameters.offloaded);
  CHECK(spec.gradients.offloaded);
  CHECK(spec.gradients.sharded);
  CHECK(spec.state[0].offloaded);
  CHECK(spec.ema->offloaded);
  CHECK(spec.rounded->offloaded);
  CHECK(spec.rounded->sharded);
  REQUIRE(spec.sent);
  CHECK_FALSE(spec.sent->offloaded);
  CHECK_FALSE(spec.sent->sharded);
}

TEST_CASE("offloaded weights are gathered from host memory, without a copy on the GPU") {
  Config config = bf16_with_masters();
  config.zero.stage = 3;
  config.zero.offload_optimizer = config.zero.offload_param = "cpu";
  const FlatSpec spec = flat_spec(config, 3, true);
  CHECK(spec.rounded->offloaded);
  CHECK(spec.rounded->sharded);
  CHECK_FALSE(spec.sent);

  config.zero.offload_optimizer = "none";
  CHECK_FALSE(flat_spec(config, 3, true).parameters.offloaded);
  CHECK(flat_spec(config, 3, true).rounded->offloaded);
}

TEST_CASE("workers on the CPU offload nothing") {
  Config config = bf16_with_masters();
  config.zero.offload_optimizer = "cpu";
  const FlatSpec spec = flat_spec(config, 1, false);
  CHECK_FALSE(spec.parameters.offloaded);
  CHECK_FALSE(spec.gradients.offloaded);
  CHECK_FALSE(spec.sent);
}
