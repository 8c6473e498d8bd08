// Every stage of ZeRO on several ranks, with real models.
#include "unit_exchange.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/train/trainer.h"

#include "fakes.h"
#include "support/ranks.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

/// Blocks of several units, some of which do not divide evenly.
Config zero_config(int stage, bool llama = false) {
  Config config = tiny_config();
  ModelConfig& model = config.model;
  model.vocab_size = 300;
  model.hidden_size = 128;
  model.intermediate_size = 512;
  model.num_hidden_layers = 3;
  model.num_attention_heads = model.num_key_value_heads = 4;
  model.head_dim = 32;
  model.max_position_embeddings = 16;
  if (llama) {
    model.model_type = "llama";
    model.hidden_act = "silu";
    model.attention_bias = model.attention_out_bias = model.mlp_bias = false;
    model.tie_word_embeddings = false;
  }
  config.batch = {.train_batch_size = 6, .micro_batch_size = 1};
  config.training.seq_length = 16;
  config.training.eval_iters = 2;
  config.training.deterministic = true;
  config.gradient_clipping = 0.05;  // active from the first step
  config.optimizer.lr = 0.01;
  config.optimizer.weight_decay = 0.1;
  config.zero.stage = stage;
  return config;
}

/// What a run leaves: losses and norms of its steps, the evaluation, and the state of all ranks put
/// together.
struct Result {
  std::vector<double> losses, norms;
  double evaluated = 0;
  std::vector<std::vector<std::byte>> state;  ///< parameters, optimizer's state, average
  bool operator==(const Result&) const = default;
};

void put(const FlatTensor& from, const RankPlan& plan, std::int64_t total,
         std::vector<std::byte>& to) {
  if (!from) return;
  const auto size = static_cast<std::int64_t>(size_of(from.values.dtype()));
  to.resize(static_cast<std::size_t>(total * size));
  for (const Slice& slice : plan.slices())
    std::copy_n(static_cast<const std::byte*>(from.at(slice).raw()), slice.elements.size() * size,
                to.begin() + slice.elements.begin * size);
}

/// A rank of a job that trains from drawn weights.
struct TrainedRank {
  TrainedRank(const Config& config, Communicator& comm, int ranks, std::int64_t unit_elements = 0)
      : table(parameter_table(config.model, config.training.no_decay_norms_and_biases)),
        plan(plan_rank(config, table, comm.rank(), ranks, unit_elements)),
        buffers(table, config, plan),
        slots(table, plan, buffers),
        data(1000, config.training.seq_length),
        valid(11, config.training.seq_length),
        model(Model::create(config.model, table, slots.block_weights(), slots.block_gradients(),
                            model_options(config), pool)),
        trainer((initialize(), Trainer::Parts{config, table, plan, buffers, slots, *model, comm,
                                              pool, data, &valid, progress, requests}),
                first_state(config)) {}

  void initialize() {
    buffers.initialize(table, 7, pool);
    buffers.round_weights(pool);
  }
  static TrainingState first_state(const Config& config) {
    TrainingState state;
    state.loss_scale = LossScaler(config.precision).initial();
    return state;
  }

  ThreadPool pool{1, true};
  const ParameterTable table;
  const RankPlan plan;
  const FlatBuffers buffers;
  const UnitSlots slots;
  const FakeDataset data, valid;
  const std::unique_ptr<Model> model;
  Progress progress;
  Requests requests;
  Trainer trainer;
};

Result train(const Config& config, int ranks, int steps = 4, std::int64_t unit_elements = 0) {
  Result result;
  std::mutex mutex;
  const auto errors = run_ranks(over_shared_memory, ranks, [&](Communicator& comm) {
    TrainedRank rank(config, comm, ranks, unit_elements);
    std::vector<double> losses, norms;
    for (int i = 0; i < steps; ++i) {
      const StepResult& step = rank.trainer.step();
      losses.push_back(step.loss);
      norms.push_back(step.grad_norm);
    }
    const double evaluated = rank.trainer.evaluate();
    const std::lock_guard lock(mutex);
    result.losses = losses;
    result.norms = norms;
    result.evaluated = evaluated;
    const FlatState kept = rank.buffers.state();
    result.state.resize(kept.moments.size() + 2);
    const auto put_together = [&](const FlatTensor& from, std::size_t i) {
      put(from, rank.plan, rank.table.total, result.state[i]);
    };
    put_together(kept.parameters, 0);
    put_together(kept.ema, 1);
    for (std::size_t i = 0; i < kept.moments.size(); ++i)
      put_together(kept.moments[i].values, i + 2);
  });
  for (const std::string& error : errors) CHECK(error == "");
  return result;
}

void check_near(const Result& a, const Result& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(1e-5));
    CHECK(a.norms[i] == Approx(b.norms[i]).epsilon(1e-5));
  }
  CHECK(a.evaluated == Approx(b.evaluated).epsilon(1e-5));
}

}  // namespace

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
      TrainedRank rank(config, comm, 2);
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
