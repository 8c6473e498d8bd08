#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("products come in fp32 and bf16, each against the best of the squares in its type") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 1, .micro_batch_size = 1, .gradient_accumulation_steps = 1};
  const auto result = bench_gemm(config, 2);
  CHECK(result["gpu"].is_null());
  REQUIRE(result["dtypes"].size() == 2);
  CHECK(result["dtypes"][0]["dtype"] == "fp32");
  CHECK(result["dtypes"][1]["dtype"] == "bf16");
  for (const auto& dtype : result["dtypes"]) {
    CHECK(dtype["ceiling_flops_per_sec"].get<double>() > 0);
    CHECK(dtype["products"].size() == 15);
  }
}
