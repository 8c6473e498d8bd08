#pragma once

// Ranks as threads that train real models, for tests of what they exchange.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/train/trainer.h"

#include "fakes.h"
#include "support/groups.h"
#include "tiny_config.h"

namespace hgt {

/// Blocks of several units, some of which do not divide evenly.
inline Config zero_config(int stage, bool llama = false) {
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

inline void put(const FlatTensor& from, const RankPlan& plan, std::int64_t total,
                std::vector<std::byte>& to) {
  if (!from) return;
  const auto size = static_cast<std::int64_t>(size_of(from.values.dtype()));
  to.resize(static_cast<std::size_t>(total * size));
  for (const Slice& slice : plan.slices())
    std::copy_n(static_cast<const std::byte*>(from.at(slice).raw()), slice.elements.size() * size,
                to.begin() + slice.elements.begin * size);
}

/// A rank of a job that trains from drawn weights, on the CPU or on a GPU. `wrap` makes the model
/// that it trains from the real one.
struct TrainedRank {
  using Wrap = std::function<std::unique_ptr<Model>(std::unique_ptr<Model>)>;
  TrainedRank(const Config& config, const Groups& groups, std::int64_t unit_elements = 0,
              const CudaQueue* queue = nullptr, const Wrap& wrap = std::identity())
      : stream(queue ? Stream(*queue) : Stream(pool)),
        table(rank_table(config)),
        plan(plan_rank(config, table, groups.world->rank(), groups.world->size(), unit_elements)),
        buffers(config, plan, stream.device()),
        host(buffers, config, plan, stream),
        slots(table, plan, buffers),
        data(1000, config.training.seq_length),
        valid(11, config.training.seq_length),
        model(
            wrap(Model::create(config.model, table, slots.block_weights(), slots.block_gradients(),
                               model_options(config, plan.shape, groups), stream))),
        trainer((initialize(), Trainer::Parts{config, table, plan, buffers, slots, *model, groups,
                                              stream, data, &valid, progress, requests, &pool}),
                first_state(config)) {}

  void initialize() {
    host.get().initialize(table, 7, pool);
    host.store();
    buffers.round_weights(buffers.is_offloaded() ? Stream(pool) : stream);
  }
  static TrainingState first_state(const Config& config) {
    TrainingState state;
    state.loss_scale = LossScaler(config.precision).initial();
    return state;
  }

  ThreadPool pool{1, true};
  const Stream stream;
  const ParameterTable table;
  const RankPlan plan;
  const FlatBuffers buffers;
  const HostBuffers host;
  const UnitSlots slots;
  const FakeDataset data, valid;
  const std::unique_ptr<Model> model;
  Progress progress;
  Requests requests;
  Trainer trainer;
};

/// Trains a rank and adds what it leaves.
inline void train(TrainedRank& rank, int steps, Result& result, std::mutex& mutex) {
  std::vector<double> losses, norms;
  for (int i = 0; i < steps; ++i) {
    const StepResult& step = rank.trainer.step();
    losses.push_back(step.loss);
    norms.push_back(step.skipped ? -1 : step.grad_norm);
  }
  const double evaluated = rank.trainer.evaluate();
  rank.trainer.wait_for_collectives();
  rank.host.fetch();
  const std::lock_guard lock(mutex);
  result.losses = losses;
  result.norms = norms;
  result.evaluated = evaluated;
  const FlatState kept = rank.host.get().state();
  result.state.resize(kept.moments.size() + 2);
  const auto put_together = [&](const FlatTensor& from, std::size_t i) {
    put(from, rank.plan, rank.table.total, result.state[i]);
  };
  put_together(kept.parameters, 0);
  put_together(kept.ema, 1);
  for (std::size_t i = 0; i < kept.moments.size(); ++i) put_together(kept.moments[i].values, i + 2);
}

inline Result train(const Config& config, int ranks, int steps = 4,
                    std::int64_t unit_elements = 0) {
  Result result;
  std::mutex mutex;
  const auto errors = run_groups(over_shared_memory, config, ranks, [&](const Groups& groups) {
    TrainedRank rank(config, groups, unit_elements);
    train(rank, steps, result, mutex);
  });
  for (const std::string& error : errors) CHECK(error == "");
  return result;
}

inline void check_near(const Result& a, const Result& b, double tolerance = 1e-5) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(tolerance));
    CHECK(a.norms[i] == Approx(b.norms[i]).epsilon(tolerance));
  }
  CHECK(a.evaluated == Approx(b.evaluated).epsilon(tolerance));
}

/// Two runs with dropout, in fp32 and in bf16, have the same bits.
inline void check_repeatable(Config config, int ranks) {
  config.model.resid_pdrop = config.model.attn_pdrop = 0.1;
  for (const bool bf16 : {false, true}) {
    config.precision.bf16 = bf16;
    const Result first = train(config, ranks), again = train(config, ranks);
    CHECK(first.losses == again.losses);
    CHECK(first.norms == again.norms);
    CHECK(first.evaluated == again.evaluated);
  }
}

/// A step of two ranks waits for the group, and counts all of that as communication.
inline void check_waits_count(const Config& config, Communicator* Groups::*group) {
  const auto errors = run_groups(over_shared_memory, config, 2, [&](const Groups& groups) {
    TrainedRank rank(config, groups);
    const std::int64_t before = (groups.*group)->waited_ns();
    const double ms = rank.trainer.step().comm_ms;
    const std::int64_t waited = (groups.*group)->waited_ns() - before;
    if (waited <= 0 || ms < static_cast<double>(waited) * 1e-6)
      throw Error(ErrorKind::kInternal, "the waits were not counted");
  });
  for (const std::string& error : errors) CHECK(error == "");
}

}  // namespace hgt
