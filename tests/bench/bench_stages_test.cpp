#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"

#include "support/ranks.h"
#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("stages of ZeRO are timed in turns, on any number of ranks") {
  std::vector<Config> configs;
  for (const int stage : {0, 3, 1}) {
    Config& config = configs.emplace_back(tiny_config());
    config.training.seq_length = 8;
    config.batch = {.train_batch_size = 4, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
    config.zero.stage = stage;
  }
  nlohmann::ordered_json result;
  const auto errors = run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
    auto mine = bench_stages(configs, 4, comm);
    if (comm.rank() == 0) result = std::move(mine);
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(result["workers"] == 2);
  CHECK(result["tokens_per_step"] == 32);
  REQUIRE(result["stages"].size() == 3);
  CHECK(result["stages"][1]["stage"] == 3);
  for (const auto& stage : result["stages"]) {
    CHECK(stage["step_ms"]["p10"] <= stage["step_ms"]["p90"]);
    CHECK(stage["share_of_waits"] > 0);
    CHECK(stage["share_of_waits"] < 1);
    CHECK(stage["planned_bytes"] > 0);
  }
  CHECK(result["stages"][0]["of_first"]["median"] == 1);
  result["backend"] = "a test's";
  CHECK_THAT(bench_text(result),
             Catch::Matchers::Contains("2 workers over a test's, 32 tokens a step, fp32"));
}
