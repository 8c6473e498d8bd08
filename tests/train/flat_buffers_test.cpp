#include "hgtrain/train/flat_buffers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/device/thread_pool.h"

#include "emulated.h"
#include "tiny_config.h"

using namespace hgt;

TEST_CASE("the model computes with the parameters, or with a copy of its type") {
  ThreadPool pool(1);
  Config config = tiny_config();
  const ParameterTable table = parameter_table(config.model, false);
  const FlatBuffers wide(config, plan_rank(config, table));
  wide.parameters.as<float>()[1] = 1.001f;
  wide.round_weights(pool);
  CHECK(wide.weights().values.data<float>() == wide.parameters.as<float>().data());

  config.precision.bf16 = true;
  const FlatBuffers narrow(config, plan_rank(config, table));
  narrow.parameters.as<float>()[1] = 1.001f;
  narrow.round_weights(pool);
  CHECK(narrow.weights().values.dtype() == DType::kBF16);
  CHECK(narrow.weights().values.data<BFloat16>()[1].bits == BFloat16(1.001f).bits);
}

TEST_CASE("CUDA: a run's state is copied to the device, without moments that are still zero") {
  if (!has_emulation()) return;
  ThreadPool pool(1);
  Config config = tiny_config();
  config.hardware.device = "cuda";
  config.training.ema_decay = 0.9;
  const ParameterTable table = parameter_table(config.model, false);
  const RankPlan plan = plan_rank(config, table);
  const CudaQueue queue(Device::cuda(0));
  const FlatBuffers buffers(config, plan, queue.device());
  const HostBuffers host(buffers, config, plan, queue);
  const FlatBuffers& there = host.get();
  REQUIRE(&there != &buffers);
  std::vector<std::pair<const Buffer*, const Buffer*>> moments;
  for (std::size_t i = 0; i < buffers.optimizer_state.size(); ++i)
    moments.emplace_back(&there.optimizer_state[i], &buffers.optimizer_state[i]);
  REQUIRE(moments.size() == 2);
  const auto fill = [](const Buffer& of, float value) {
    for (float& x : of.as<float>()) x = value;
  };
  fill(there.parameters, 1);
  fill(there.ema, 2);
  for (const auto& [from, to] : moments) fill(*from, 3);
  const auto all_are = [&](const Buffer& of, float value) {
    std::vector<float> values(of.as<float>().size());
    queue.copy(values.data(), of.data(), static_cast<std::size_t>(of.bytes()));
    queue.synchronize();
    return std::ranges::all_of(values, [&](float x) { return x == value; });
  };
  for (const bool with_state : {false, true}) {
    host.store(with_state);
    CHECK(all_are(buffers.parameters, 1));
    CHECK(all_are(buffers.ema, 2));
    for (const auto& [from, to] : moments) CHECK(all_are(*to, with_state ? 3 : 0));
  }
}

TEST_CASE("buffers of the CPU are host memory themselves") {
  ThreadPool pool(1);
  const Config config = tiny_config();
  const ParameterTable table = parameter_table(config.model, false);
  const RankPlan plan = plan_rank(config, table);
  const FlatBuffers buffers(config, plan);
  const HostBuffers host(buffers, config, plan, pool);
  CHECK(&host.get() == &buffers);
}
