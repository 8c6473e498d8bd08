#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("ops come by the time they take in a step, the longest first, against the ceilings") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  const auto result = bench_ops(config, 2);
  const auto& ops = result["ops"];
  REQUIRE(ops.size() > 5);
  for (std::size_t i = 1; i < ops.size(); ++i)
    CHECK(ops[i - 1]["ms_per_step"].get<double>() >= ops[i]["ms_per_step"].get<double>());
  double share = 0;
  for (const auto& op : ops) share += op["share"].get<double>();
  CHECK(share == Approx(1));
  double ms = 0;
  for (const auto& op : ops) ms += op["ms_per_step"].get<double>();
  CHECK(result["ops_ms"].get<double>() == Approx(ms));
  CHECK(result["step_ms"]["median"].get<double>() > 0);
  for (const auto& op : ops)
    if (op.contains("flops_per_sec")) CHECK(op["of_ceiling"].get<double>() > 0);
}
