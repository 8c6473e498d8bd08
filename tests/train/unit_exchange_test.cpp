// Every stage of ZeRO on several ranks, with real models.
#include "unit_exchange.h"

#include <string>
#include <vector>

#include "trained_ranks.h"

using namespace hgt;

TEST_CASE("without accumulation, every stage gives the bits of stage 0", "[zero]") {
  for (const bool llama : {false, true})
    for (const int ranks : {2, 3}) {
      Config config = zero_config(0, llama);
      config.batch.micro_batch_size = 6 / ranks;
      const Result expected = train(config, ranks);
      CHECK(expected.losses.back() < expected.losses.front());
      CHECK(expected.norms.front() > config.gradient_clipping);
      for (const int stage : {1, 2, 3}) {
        CAPTURE(llama, ranks, stage);
        config.zero.stage = stage;
        CHECK(train(config, ranks) == expected);
      }
    }
}

TEST_CASE("every stage gives the losses and norms of one rank, also with accumulation", "[zero]") {
  const Result one = train(zero_config(0), 1, 20);
  for (const int stage : {0, 1, 2, 3})
    for (const int ranks : {2, 4}) {  // 4 ranks: some have one micro-batch, some two
      CAPTURE(stage, ranks);
      const Config config = zero_config(stage);
      const Result several = train(config, ranks, 20);
      check_near(several, one);
      CHECK(train(config, ranks, 20) == several);
    }
}

TEST_CASE("every stage works with each optimizer, type and average", "[zero]") {
  struct Variant {
    const char* name;
    void (*change)(Config&);
  };
  for (const auto& [name, change] :
       {Variant{"Lamb", [](Config& c) { c.optimizer.type = "Lamb"; }},
        Variant{"SGD", [](Config& c) { c.optimizer.type = "SGD"; }},
        Variant{"bf16, average",
                [](Config& c) {
                  c.precision.bf16 = true;
                  c.training.ema_decay = 0.9;
                }},
        Variant{"bf16 state",
                [](Config& c) {
                  c.precision.bf16 = c.precision.bf16_parameters = c.precision.bf16_state = true;
                }},
        Variant{"fp16", [](Config& c) { c.precision.fp16 = true; }},
        Variant{"groups", [](Config& c) { c.training.no_decay_norms_and_biases = true; }},
        Variant{"recomputed", [](Config& c) { c.recompute.mode = "full"; }}}) {
    Config config = zero_config(0);
    config.batch.micro_batch_size = 3;
    change(config);
    const Result expected = train(config, 2);
    for (const int stage : {1, 2, 3}) {
      CAPTURE(name, stage);
      config.zero.stage = stage;
      CHECK(train(config, 2) == expected);
    }
  }
}

TEST_CASE("units and slots of any size give the same bits", "[zero]") {
  Config config = zero_config(3);
  config.batch.micro_batch_size = 3;
  const Result expected = train(config, 2);
  for (const std::int64_t unit : {1, 250'000, 1'000'000'000})
    CHECK(train(config, 2, 4, unit) == expected);
  config.zero.prefetch_bucket_size = 0;
  CHECK(train(config, 2) == expected);
  config.zero.prefetch_bucket_size = 1;
  config.zero.max_live_parameters = 1;
  CHECK(train(config, 2) == expected);
}

TEST_CASE("every rank names the same tensor that is not finite first", "[zero]") {
  for (const int stage : {0, 1, 2, 3}) {
    Config config = zero_config(stage);
    config.optimizer.lr = 1e30;
    std::vector<std::string> messages(2);
    run_ranks(over_shared_memory, 2, [&](Communicator& comm) {
      TrainedRank rank(config, comm);
      try {
        for (int i = 0; i < 5; ++i) rank.trainer.step();
      } catch (const Error& e) {
        messages[static_cast<std::size_t>(comm.rank())] = e.message();
      }
    });
    CAPTURE(stage);
    CHECK_THAT(messages[0], Catch::Contains("the first bad tensor is the gradient of "));
    CHECK(messages[0] == messages[1]);
  }
}
