// Pipelines of several stages on several ranks, with real models.
#include "pipeline_exchange.h"

#include <string>
#include <vector>

#include "trained_ranks.h"

using namespace hgt;

namespace {

Config in_stages(int stages, Config config) {
  config.parallelism.pipeline_parallel_size = stages;
  return config;
}

void interleave(Config& config, int stages, int virtual_stages) {
  config.parallelism.pipeline_parallel_size = stages;
  config.parallelism.virtual_pipeline_stages = virtual_stages;
  config.parallelism.pipeline_schedule = "interleaved";
}

}  // namespace

TEST_CASE("any pipeline gives the bits of one rank if nothing is tied", "[pipeline]") {
  const Result one = train(llama_config(0), 1);
  for (const std::string schedule : {"1f1b", "gpipe", "zb_h1"}) {
    Config config = in_stages(3, llama_config(0));
    config.parallelism.pipeline_schedule = schedule;
    for (const int stages : {2, 3, 5}) {
      CAPTURE(schedule, stages);
      config.parallelism.pipeline_parallel_size = stages;
      CHECK(train(config, stages) == one);
    }
    config.parallelism.pipeline_parallel_size = 3;
    config.parallelism.pipeline_layer_split = {0, 3, 0};
    CHECK(train(config, 3) == one);
  }
}

TEST_CASE("an interleaved pipeline gives the bits of one rank with any number of micro-batches",
          "[pipeline]") {
  for (const int micros : {1, 2, 3, 4, 5, 6}) {
    Config config = llama_config(0);
    config.model.num_hidden_layers = 5;
    config.batch.train_batch_size = micros;
    config.model.resid_pdrop = 0.1;
    const Result one = train(config, 1);
    for (const auto& [stages, virtual_stages] :
         {std::pair(2, 2), std::pair(2, 3), std::pair(3, 2)}) {
      CAPTURE(micros, stages, virtual_stages);
      interleave(config, stages, virtual_stages);
      CHECK(train(config, stages) == one);
    }
  }
}

TEST_CASE("a pipeline with a tied embedding, on data-parallel ranks, gives the numbers of one rank",
          "[pipeline]") {
  const Result one = train(zero_config(0), 1, 20);
  struct Job {
    int stages, ranks;
    const char* schedule;
  };
  for (const auto& [stages, ranks, schedule] :
       {Job{2, 2, "1f1b"}, Job{3, 3, "zb_h1"}, Job{2, 4, "1f1b"}, Job{2, 4, "zb_h1"}}) {
    CAPTURE(stages, ranks, schedule);
    Config config = in_stages(stages, zero_config(0));
    config.parallelism.pipeline_schedule = schedule;
    const Result several = train(config, ranks, 20);
    check_near(several, one);
    CHECK(train(config, ranks, 20) == several);
  }
  Config config = zero_config(0);
  interleave(config, 2, 2);
  for (const int ranks : {2, 4}) {
    const Result several = train(config, ranks, 20);
    check_near(several, one);
    CHECK(train(config, ranks, 20) == several);
  }
}

TEST_CASE("a step counts what its stage sends", "[pipeline]") {
  const Config config = in_stages(2, llama_config(0));
  const auto activations = static_cast<std::uint64_t>(
      config.batch.train_batch_size * config.training.seq_length * config.model.hidden_size);
  const std::uint64_t transfers = activations * sizeof(float);
  const auto errors = run_groups(over_shared_memory, config, 2, [&](const Groups& groups) {
    TrainedRank rank(config, groups);
    const std::uint64_t before = groups.world->sent_bytes();
    const std::uint64_t sent = rank.trainer.step().sent_bytes;
    const bool first = groups.world->rank() == 0;
    if ((first ? groups.output : groups.input_gradient)->sent_bytes() != transfers ||
        (first ? groups.output_gradient : groups.input)->sent_bytes() != 0 ||
        sent != transfers + groups.world->sent_bytes() - before)
      throw Error(ErrorKind::kInternal, "wrong count of what was sent");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("a pipeline's stages may have fewer micro-batches than there are stages", "[pipeline]") {
  Config config = llama_config(0);
  config.batch.micro_batch_size = 3;
  const Result one = train(config, 1);
  config.parallelism.pipeline_parallel_size = 4;
  for (const std::string schedule : {"1f1b", "gpipe", "zb_h1"}) {
    config.parallelism.pipeline_schedule = schedule;
    CHECK(train(config, 4) == one);
  }
}

TEST_CASE("a pipeline works with each optimizer, type and average, and at ZeRO stage 1",
          "[pipeline]") {
  struct Variant {
    const char* name;
    void (*change)(Config&);
  };
  for (const auto& [name, change] :
       {Variant{"Lamb", [](Config& c) { c.optimizer.type = "Lamb"; }},
        Variant{"bf16, average",
                [](Config& c) {
                  c.precision.bf16 = true;
                  c.training.ema_decay = 0.9;
                }},
        Variant{"fp16", [](Config& c) { c.precision.fp16 = true; }},
        Variant{"groups", [](Config& c) { c.training.no_decay_norms_and_biases = true; }},
        Variant{"recomputed",
                [](Config& c) {
                  c.recompute = {"full", 2};
                }},
        Variant{"selectively recomputed", [](Config& c) {
                  c.recompute = {"selective", 0};
                }}}) {
    for (const auto& [llama, schedule] :
         {std::pair(false, "1f1b"), std::pair(true, "1f1b"), std::pair(true, "zb_h1")}) {
      CAPTURE(name, llama, schedule);
      Config config = zero_config(0, llama);
      config.parallelism.pipeline_schedule = schedule;
      change(config);
      const Result one = train(config, 1);
      config.parallelism.pipeline_parallel_size = 2;
      const Result two = train(config, 2);
      if (llama) CHECK(two == one);
      const Result four = train(config, 4);
      config.zero.stage = 1;
      CHECK(train(config, 4) == four);
      config.zero.stage = 0;
      interleave(config, 2, 2);
      if (llama) CHECK(train(config, 2) == one);
      const Result interleaved = train(config, 4);
      config.zero.stage = 1;
      CHECK(train(config, 4, 4, 1000) == interleaved);
    }
  }
}
