#include "hgtrain/train/flat_buffers.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/half.h"
#include "hgtrain/device/thread_pool.h"

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

TEST_CASE("buffers of the CPU are host memory themselves") {
  ThreadPool pool(1);
  const Config config = tiny_config();
  const ParameterTable table = parameter_table(config.model, false);
  const RankPlan plan = plan_rank(config, table);
  const FlatBuffers buffers(config, plan);
  const HostBuffers host(buffers, config, plan, pool);
  CHECK(&host.get() == &buffers);
}
