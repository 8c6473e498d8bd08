#include <catch2/catch.hpp>

#include "trained_ranks.h"

// Training with context ranks, alone and with the other splits, against one rank.

using namespace hgt;

namespace {

Config context_config(int size, int stage = 0, bool llama = false) {
  Config config = zero_config(stage, llama);
  config.parallelism.context_parallel_size = size;
  config.optimizer.lr = 0.003;  // rounding errors stay small for 20 steps
  return config;
}

}  // namespace

TEST_CASE("context ranks train as one rank does, with clipping from the first step") {
  struct Case {
    int context, tensor, pipeline, ranks, stage;
    bool llama;
    std::string optimizer = "AdamW";
    bool split_rows = false;
  };
  for (const Case& c :
       {Case{2, 1, 1, 2, 0, false}, Case{4, 1, 1, 4, 0, true}, Case{2, 1, 1, 4, 1, true, "Lamb"},
        Case{2, 1, 1, 6, 3, false}, Case{2, 2, 1, 4, 2, true}, Case{2, 1, 2, 4, 1, false},
        Case{2, 2, 2, 8, 0, true}, Case{2, 2, 1, 4, 0, false, "AdamW", true}}) {
    Config config = context_config(c.context, c.stage, c.llama);
    config.parallelism.tensor_parallel_size = c.tensor;
    config.parallelism.pipeline_parallel_size = c.pipeline;
    config.parallelism.sequence_parallel = c.split_rows;
    config.optimizer.type = c.optimizer;
    config.training.ema_decay = 0.9;
    if (c.llama) config.model.num_key_value_heads = 2;
    if (!c.llama) config.model.resid_pdrop = config.model.attn_pdrop = 0.1;
    const Result one = train(one_rank(config), 1, 20);
    INFO("context " << c.context << ", tensor " << c.tensor << ", pipeline " << c.pipeline << " of "
                    << c.ranks << ", stage " << c.stage << ", " << c.optimizer);
    check_near(train(config, c.ranks, 20), one);
  }
}

TEST_CASE("context ranks train on packed documents and with sliding windows as one rank does") {
  for (const Recompute what : {Recompute::kNone, Recompute::kFull}) {
    Config config = context_config(2, 0, true);
    config.model.model_type = "mistral";
    config.model.layer_windows = {3, 0, 7};
    config.data.separate_documents = true;
    config.data.end_of_text = 5;
    if (what == Recompute::kFull) config.recompute = {"full", 2};
    check_near(train(config, 4, 20), train(one_rank(config), 1, 20));
  }
}

TEST_CASE("two runs of context ranks have the same bits") {
  check_repeatable(context_config(2, 1), 4);
}

TEST_CASE("context ranks in fp16 skip the same steps as one rank") {
  Config config = context_config(2);
  config.precision.fp16 = true;
  config.precision.initial_scale_power = 32;  // some steps overflow
  const Result two = train(config, 2, 20), one = train(one_rank(config), 1, 20);
  CHECK(std::ranges::count(two.norms, -1) > 0);
  for (std::size_t i = 0; i < one.norms.size(); ++i)
    CHECK((two.norms[i] == -1) == (one.norms[i] == -1));
}

TEST_CASE("the time in which a step waits for context ranks counts as communication") {
  check_waits_count(context_config(2), &Groups::context);
}
