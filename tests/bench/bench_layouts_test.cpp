#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"
#include "hgtrain/parallel/rank_plan.h"

#include "support/groups.h"
#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("layouts are timed in turns, on all ranks or on one") {
  std::vector<Config> configs;
  for (const int stage : {0, 3, 1}) {
    Config& config = configs.emplace_back(tiny_config());
    config.training.seq_length = 8;
    config.batch = {.train_batch_size = 4, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
    config.zero.stage = stage;
  }
  Config& one = configs.emplace_back(configs.front());
  one.batch.gradient_accumulation_steps = 4;
  Config& pipeline = configs.emplace_back(one);
  pipeline.parallelism.pipeline_parallel_size = 2;
  nlohmann::ordered_json result;
  const auto alone = make_self_communicator();
  const auto errors = run_groups(over_shared_memory, pipeline, 2, [&](const Groups& groups) {
    auto mine = bench_layouts(configs, 4, *groups.world, [&](const Config& config) -> Groups {
      if (config.parallelism.pipeline_parallel_size > 1) return groups;
      return ranks_of(config) > 1 ? *groups.world : *alone;
    });
    if (groups.world->rank() == 0) result = std::move(mine);
  });
  for (const std::string& error : errors) CHECK(error.empty());
  CHECK(result["tokens_per_step"] == 32);
  const auto& layouts = result["layouts"];
  REQUIRE(layouts.size() == 5);
  CHECK((layouts[0]["layout"] == "dp2" && layouts[1]["layout"] == "dp2 zero3"));
  CHECK((layouts[3]["layout"] == "one" && layouts[3]["workers"] == 1));
  CHECK((layouts[4]["layout"] == "pp2" && layouts[4]["workers"] == 2));
  for (const auto& layout : layouts) {
    CHECK(layout["step_ms"]["p10"] <= layout["step_ms"]["p90"]);
    CHECK(layout["share_of_waits"] >= 0);
    CHECK(layout["share_of_waits"] < 1);
    CHECK(layout["planned_bytes"] > 0);
  }
  CHECK(layouts[0]["of_first"]["median"] == 1);
  result["backend"] = "a test's";
  CHECK_THAT(bench_text(result),
             Catch::Matchers::Contains("over a test's, 32 tokens a step, fp32\nlayout "));
}
