#include <catch2/catch.hpp>

#include "trained_ranks.h"

// Training with tensor ranks, alone and with ZeRO and data parallelism, against one rank.

using namespace hgt;

namespace {

Config tensor_config(int size, int stage = 0, bool llama = false) {
  Config config = zero_config(stage, llama);
  config.model.vocab_size = 301;  // odd: the last rank pads
  config.parallelism.tensor_parallel_size = size;
  config.optimizer.lr = 0.003;  // rounding errors stay small for 20 steps
  return config;
}

}  // namespace

TEST_CASE("tensor ranks train as one rank does, with clipping from the first step") {
  struct Case {
    int size, ranks, stage;
    bool llama;
    std::string optimizer = "AdamW";
  };
  for (const Case& c : {Case{2, 2, 0, false}, Case{4, 4, 0, true}, Case{2, 4, 1, true, "Lamb"},
                        Case{2, 4, 3, false}, Case{2, 6, 2, true}}) {
    Config config = tensor_config(c.size, c.stage, c.llama);
    config.optimizer.type = c.optimizer;
    config.training.ema_decay = 0.9;
    config.training.no_decay_norms_and_biases = c.stage == 1;
    if (c.llama) config.model.num_key_value_heads = 2;
    const Result one = train(one_rank(config), 1, 20);
    INFO(c.size << " of " << c.ranks << ", stage " << c.stage << ", " << c.optimizer);
    check_near(train(config, c.ranks, 20), one);
  }
}

TEST_CASE("tensor ranks that share key/value heads and have q/k norms train as one rank does") {
  for (const int heads : {1, 2}) {
    Config config = tensor_config(4, 0, true);
    config.model.model_type = "qwen3";
    config.model.qk_norm = true;
    config.model.num_key_value_heads = heads;
    config.recompute = {"full", 2};
    check_near(train(config, 4, 20), train(one_rank(config), 1, 20));
  }
}

TEST_CASE("tensor ranks that split rows train as one rank does, in every product of splits") {
  struct Case {
    int size, ranks, stage, stages = 1;
    bool llama = false;
    std::string optimizer = "AdamW", recompute = "none";
    int context = 1;
  };
  for (const Case& c : {Case{2, 2, 0}, Case{4, 4, 0, 1, true}, Case{2, 4, 1, 1, true, "Lamb"},
                        Case{2, 4, 3, 1, false, "AdamW", "selective"}, Case{2, 4, 0, 2},
                        Case{2, 4, 0, 2, true, "AdamW", "full"}, Case{2, 6, 2, 1, true},
                        Case{2, 4, 1, 1, false, "AdamW", "full", 2}}) {
    Config config = tensor_config(c.size, c.stage, c.llama);
    config.parallelism.sequence_parallel = true;
    config.parallelism.context_parallel_size = c.context;
    config.parallelism.pipeline_parallel_size = c.stages;
    if (c.llama) config.parallelism.pipeline_schedule = "zb_h1";
    config.optimizer.type = c.optimizer;
    config.recompute.mode = c.recompute;
    config.training.seq_length = c.context > 1 ? 12 : 15;  // rows that are not cut evenly
    config.training.ema_decay = 0.9;
    config.model.resid_pdrop = config.model.embd_pdrop = config.model.attn_pdrop =
        c.llama ? 0.0 : 0.1;
    if (c.llama) config.model.num_key_value_heads = 2;
    INFO(c.size << " of " << c.ranks << ", stage " << c.stage << ", " << c.stages << " stages");
    const Result split = train(config, c.ranks, 20);
    check_near(split, train(one_rank(config), 1, 20));
    CHECK(train(config, c.ranks, 20) == split);
  }
}

TEST_CASE("tensor ranks that split rows, share key/value heads and have q/k norms") {
  Config config = tensor_config(4, 0, true);
  config.parallelism.sequence_parallel = true;
  config.model.model_type = "qwen3";
  config.model.qk_norm = true;
  config.model.num_key_value_heads = 2;
  config.training.seq_length = 3;  // a rank has no rows
  check_near(train(config, 4, 20), train(one_rank(config), 1, 20));
}

TEST_CASE("the time in which a step waits for tensor ranks counts as communication") {
  check_waits_count(tensor_config(2), &Groups::tensor);
}

TEST_CASE("two runs of tensor ranks have the same bits") {
  check_repeatable(tensor_config(2, 1), 4);
}
