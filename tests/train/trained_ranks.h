#pragma once

// Ranks as threads that train real models, for tests of what they exchange.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/train/model_options.h"
#include "hgtrain/train/trainer.h"

#include "fakes.h"
#include "support/groups.h"
#include "tiny_config.h"

namespace hgt {

/// The same training by one rank.
inline Config one_rank(Config config) {
  config.parallelism = {};
  config.zero.stage = 0;
  return config;
}

/// Blocks of several units, some of which do not divide evenly. A Llama ties no weights.
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

inline Config llama_config(int stage) {
  return zero_config(stage, true);
}

/// The whole model's tensors by name, put together from all ranks' parts.
using WholeTensors = std::map<std::string, std::vector<std::byte>>;

/// What a run leaves.
struct Result {
  std::vector<double> losses, norms;  ///< of its steps
  double evaluated = 0;
  WholeTensors gradients;           ///< of its first step, fp32
  std::vector<WholeTensors> state;  ///< parameters, average, optimizer's state
  bool operator==(const Result&) const = default;
};

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
        slots(table, plan, buffers),
        data(1000, config.training.seq_length),
        valid(11, config.training.seq_length),
        model(
            wrap(Model::create(config.model, table, slots.block_weights(), slots.block_gradients(),
                               model_options(config, plan.shape, groups), stream))),
        trainer(
            (initialize(config), Trainer::Parts{config, table, plan, buffers, slots, *model, groups,
                                                stream, data, &valid, progress, requests, &pool}),
            first_state(config)) {}

  void initialize(const Config& config) {
    const HostBuffers host(buffers, config, plan, stream);
    host.get().initialize(table, 7, pool);
    host.store(/*with_state=*/false);
    buffers.round_weights(home());
  }
  /// Waits until the weights are there that the trainer's start exchanges; they may be changed
  /// then.
  void settle(const Groups& groups) {
    for (Communicator* const group : {groups.data, groups.tied})
      if (group) group->barrier();
  }
  Stream home() { return buffers.is_offloaded() ? Stream(pool) : stream; }  ///< the buffers'
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
  const UnitSlots slots;
  const FakeDataset data, valid;
  const std::unique_ptr<Model> model;
  Progress progress;
  Requests requests;
  Trainer trainer;
};

/// Puts the rank's slices of a flat tensor where they are in the whole model.
inline void put(const FlatTensor& from, TrainedRank& rank, WholeTensors& to) {
  if (!from) return;
  const std::size_t size = size_of(from.values.dtype());
  for (const Slice& slice : rank.plan.slices()) {
    const Tensor values = from.at(slice);
    std::vector<std::byte> bytes(values.bytes());
    rank.home().copy(bytes.data(), values.raw(), bytes.size());
    rank.home().synchronize();
    const auto [begin, end] = slice.elements;
    for (const Parameter& p : rank.table.parameters) {
      std::vector<std::byte>& whole = to[p.name];
      whole.resize(size * static_cast<std::size_t>(std::accumulate(
                              p.shape.begin(), p.shape.end(), std::int64_t{1}, std::multiplies())));
      const Range here{std::max(begin, p.offset) - p.offset,
                       std::min(end, p.offset + p.numel) - p.offset};
      if (here.size() <= 0) continue;
      p.placement(tensor_rank(rank.plan)).for_each_run(here, [&](const Placement::Run& run) {
        std::copy_n(bytes.data() + static_cast<std::size_t>(p.offset + run.local - begin) * size,
                    static_cast<std::size_t>(run.size) * size,
                    whole.data() + static_cast<std::size_t>(run.whole) * size);
      });
    }
  }
}

/// Trains a rank and adds what it leaves.
inline void train(TrainedRank& rank, int steps, Result& result, std::mutex& mutex) {
  std::vector<double> losses, norms;
  for (int i = 0; i < steps; ++i) {
    const StepResult& step = rank.trainer.step();
    losses.push_back(step.loss);
    norms.push_back(step.skipped ? -1 : step.grad_norm);
    if (i > 0) continue;
    const std::lock_guard lock(mutex);
    put(rank.buffers.gradient_values(), rank, result.gradients);
  }
  const double evaluated = rank.trainer.evaluate();
  rank.trainer.wait_for_collectives();
  const std::lock_guard lock(mutex);
  result.losses = losses;
  result.norms = norms;
  result.evaluated = evaluated;
  const FlatState kept = rank.buffers.state();
  result.state.resize(kept.moments.size() + 2);
  put(kept.parameters, rank, result.state[0]);
  put(kept.ema, rank, result.state[1]);
  for (std::size_t i = 0; i < kept.moments.size(); ++i)
    put(kept.moments[i].values, rank, result.state[i + 2]);
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

inline double norm_of(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares);
}

/// Each tensor's gradients of the first step differ by no more than what the order of sums may
/// change.
inline void check_gradients_near(const Result& a, const Result& b) {
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [name, bytes] : b.gradients) {
    const auto floats = [](const std::vector<std::byte>& all) {
      return std::span(reinterpret_cast<const float*>(all.data()), all.size() / sizeof(float));
    };
    const std::span<const float> expected = floats(bytes), actual = floats(a.gradients.at(name));
    REQUIRE(actual.size() == expected.size());
    std::vector<float> difference(actual.begin(), actual.end());
    for (std::size_t i = 0; i < expected.size(); ++i) difference[i] -= expected[i];
    CAPTURE(name);
    REQUIRE(std::isfinite(norm_of(actual)) == std::isfinite(norm_of(expected)));
    if (!std::isfinite(norm_of(expected))) continue;  // fp16 overflowed, and the step is skipped
    CHECK(norm_of(difference) <= 1e-4 * std::max(norm_of(expected), 1e-3 * b.norms[0]));
  }
}

/// The losses, norms and evaluation of two runs are equal except for rounding, and so are the first
/// step's gradients.
inline void check_near(const Result& a, const Result& b, double tolerance = 1e-5) {
  check_gradients_near(a, b);
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
    CHECK(train(config, ranks) == train(config, ranks));
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
