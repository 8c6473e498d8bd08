#include "hgtrain/train/unit_slots.h"

#include <map>
#include <random>
#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/parallel/verify.h"

#include "tiny_config.h"

using namespace hgt;

TEST_CASE("every rank allocates the slots that the memory table has and its schedule uses") {
  std::mt19937 random(1);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    Config config = tiny_config();
    config.model.num_hidden_layers = draw(1, 6);
    config.model.vocab_size = draw(10, 3000);
    config.model.tie_word_embeddings = draw(0, 1) == 1;
    config.precision.bf16 = draw(0, 1) == 1;
    config.zero.stage = draw(0, 3);
    config.zero.reduce_bucket_size = draw(1, 50'000);
    config.zero.prefetch_bucket_size = draw(0, 2) * 10'000;
    config.zero.max_live_parameters = draw(1, 100'000);
    const std::int64_t ranks = draw(1, 4), accumulated = draw(1, 3);
    config.batch = {.train_batch_size = ranks * accumulated,
                    .micro_batch_size = 1,
                    .gradient_accumulation_steps = accumulated};
    std::map<std::string, std::int64_t> planned;
    for (const Allocation& a : memory_table(config, 1)) planned[a.name] = a.bytes;
    const ParameterTable table = parameter_table(config.model, false);
    for (int rank = 0; rank < ranks; ++rank) {
      const RankPlan plan = plan_rank(config, table, rank, static_cast<int>(ranks));
      const FlatBuffers buffers(config, plan);
      CHECK(UnitSlots(table, plan, buffers).bytes() ==
            planned["gathered weights"] + planned["gradients of blocks"]);
      const ScheduledRank scheduled[] = {{&plan.shape, &plan.schedule}};
      CHECK(find_fault(scheduled) == "");
    }
  }
}
