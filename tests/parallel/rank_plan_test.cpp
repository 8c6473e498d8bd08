#include "hgtrain/parallel/rank_plan.h"

#include <catch2/catch.hpp>

#include "hgtrain/config/config.h"

using namespace hgt;

namespace {

const std::vector<Range> kBlocks{{0, 100'000}, {100'000, 300'000}, {300'000, 500'000}};

Config job(int stage) {
  Config config;
  config.batch = {.train_batch_size = 12, .micro_batch_size = 2, .gradient_accumulation_steps = 3};
  config.zero.stage = stage;
  return config;
}

}  // namespace

TEST_CASE("the more ranks, the more gradients a GPU sums at a time") {
  CHECK(default_unit_elements(false, 8) == 40'000'000);
  CHECK(default_unit_elements(false, 64) == 64'000'000);
  CHECK(default_unit_elements(true, 64) == 4 << 20);
}

TEST_CASE("the number of ranks follows from the batch") {
  CHECK(ranks_of(job(0)) == 2);
  CHECK(ranks_of(Config()) == 1);
}

TEST_CASE("micro-batches are distributed, and all ranks take part in the same number of sums") {
  const RankPlan first = plan_rank(job(2), kBlocks, false, 0, 4),
                 last = plan_rank(job(2), kBlocks, false, 3, 4);
  CHECK(first.micro_batches == Range{0, 2});
  CHECK(last.micro_batches == Range{5, 6});
  CHECK(last.shape.max_micro_batches == 2);
}

TEST_CASE("stage 0 updates everything, and the others only what the rank owns") {
  CHECK(plan_rank(job(0), kBlocks, true, 1, 2).updated_slices() ==
        std::vector<Slice>{{{0, 500'000}}});
  const RankPlan plan = plan_rank(job(1), kBlocks, true, 1, 2);
  CHECK(plan.updated_slices() == std::vector<Slice>(plan.slices().begin(), plan.slices().end()));
  CHECK(plan.updated_slices().size() == 3);
}

TEST_CASE("a rank may have several ranges of blocks, which follow one another in its buffers") {
  const std::vector<Range> stages{{0, 1}, {1, 2}, {2, 3}};  // one rank has the first and the last
  Config config = job(0);
  config.parallelism.pipeline_parallel_size = 2;
  const RankPlan plan = plan_rank(config, kBlocks, false, 0, 2, 0, stages);
  CHECK(plan.elements() == 300'000);
  CHECK(plan.all_slices() == std::vector<Slice>{{{0, 100'000}}, {{300'000, 500'000}, 100'000}});
  CHECK(plan.shape.units ==
        std::vector<Unit>{{{0, 1}, {0, 100'000}}, {{2, 3}, {300'000, 500'000}, 100'000, 1}});
  CHECK(plan.slices().back().local == 100'000);
}

TEST_CASE("the config's bucket sizes lower what one collective moves") {
  const auto units = [](const Config& config, bool tied = false) {
    return plan_rank(config, kBlocks, tied, 0, 2).shape.units.size();
  };
  Config config = job(1);
  CHECK(units(config) == 1);
  config.zero.reduce_bucket_size = 400'000;
  CHECK(units(config) == 2);
  config.zero.allgather_bucket_size = 1;
  CHECK(units(config) == 3);
  CHECK(units(job(0)) == 1);
  CHECK(units(job(2), true) == 2);  // a tied embedding is a unit of its own
}

TEST_CASE("stage 3 gathers ahead unless there is no room for that, or it is switched off") {
  const auto slots = [](const Config& config) {
    return plan_rank(config, kBlocks, false, 0, 2).shape.parameter_slots;
  };
  Config config = job(3);
  config.zero.prefetch_bucket_size = 1;
  CHECK(slots(config) == 2);
  config.zero.max_live_parameters = 399'999;
  CHECK(slots(config) == 1);
  config = job(3);
  config.zero.prefetch_bucket_size = 0;
  CHECK(slots(config) == 1);
}

TEST_CASE("one rank has nothing to split, so it trains as at stage 0, unless it offloads") {
  Config config = job(3);
  CHECK(plan_rank(config, kBlocks, true, 0, 1).stage() == 0);
  CHECK(plan_rank(config, kBlocks, true, 0, 2).stage() == 3);
  config.zero.offload_param = "cpu";
  CHECK(plan_rank(config, kBlocks, true, 0, 1).stage() == 0);  // it is there anyway
  config.hardware.device = "cuda";
  CHECK(plan_rank(config, kBlocks, true, 0, 1).stage() == 3);
}
