// How long the stages of a pipeline wait for each other in real steps, compared with the time that
// follows from the schedules (parallel/pipeline_time.h). Each stage has a layer that also sleeps,
// so that ranks need no cores of their own. Not part of the tests, because it measures time, for
// ten minutes:
//   ninja -C build tests/bench/pipeline_waits && build/tests/bench/pipeline_waits
// Add "-c interleaved" for that schedule alone.
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/arch/pipeline_split.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/parallel/pipeline_time.h"

#include "trained_ranks.h"

using namespace hgt;

namespace {

constexpr int kSteps = 4;
constexpr BlockTime kLayerMs = {120, 150, 90};

/// A model whose layers sleep for kLayerMs after they have computed.
class SleepingModel final : public Model {
 public:
  SleepingModel(std::unique_ptr<Model> model, bool splits)
      : model_(std::move(model)), splits_(splits) {}

  int num_blocks() const override { return model_->num_blocks(); }
  void forward(int block, int slot, const MicroBatch& batch) override {
    model_->forward(block, slot, batch);
    sleep(block, kLayerMs.forward);
  }
  void backward(int block, int slot, const MicroBatch& batch) override {
    model_->backward(block, slot, batch);
    sleep(block, splits_ ? kLayerMs.backward_input : kLayerMs.backward());
  }
  void backward_weights(int block, int slot, const MicroBatch& batch) override {
    model_->backward_weights(block, slot, batch);
    sleep(block, kLayerMs.backward_weights);
  }
  Tensor residual(int block, int slot, const MicroBatch& batch) override {
    return model_->residual(block, slot, batch);
  }
  Tensor residual_gradient(int slot, const MicroBatch& batch) override {
    return model_->residual_gradient(slot, batch);
  }
  void loss_sum(int slot, double* out) const override { model_->loss_sum(slot, out); }
  void evaluate_block(int block, int slot, const MicroBatch& batch) override {
    model_->evaluate_block(block, slot, batch);
  }

 private:
  void sleep(int block, double ms) const {
    if (block > 0 && block + 1 < num_blocks())
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  }
  const std::unique_ptr<Model> model_;
  const bool splits_;
};

Config config_of(const std::string& schedule, int stages, int micros) {
  Config config = tiny_config();
  const int parts = schedule == "interleaved" ? 2 : 1, layers = stages * parts;
  config.model.num_hidden_layers = layers;
  config.model.vocab_size = 64;
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = micros, .micro_batch_size = 1};
  config.parallelism = {.pipeline_parallel_size = stages,
                        .pipeline_schedule = schedule,
                        .virtual_pipeline_stages = parts,
                        .pipeline_layer_split = std::vector<std::int64_t>(layers, 1)};
  return config;
}

/// The shortest of some steps, so that other load on the machine counts little.
double step_ms(const Config& config) {
  double shortest = 0;
  const int stages = static_cast<int>(config.parallelism.pipeline_parallel_size);
  const auto errors = run_groups(over_shared_memory, config, stages, [&](const Groups& groups) {
    TrainedRank rank(config, groups, 0, nullptr, [&](std::unique_ptr<Model> model) {
      const bool splits =
          bool(split_backward({groups.world->rank(), stages, pipeline_schedule(config.parallelism)},
                              config.batch.train_batch_size));
      return std::make_unique<SleepingModel>(std::move(model), splits);
    });
    rank.trainer.step();
    for (int step = 0; step < kSteps; ++step) {
      const std::int64_t start_ns = now_ns();
      rank.trainer.step();
      const double ms = ms_since(start_ns);
      if (groups.world->rank() == 0 && (step == 0 || ms < shortest)) shortest = ms;
    }
  });
  for (const std::string& error : errors) REQUIRE(error == "");
  return shortest;
}

/// What the schedule's actions say.
double expected_share(const Config& config) {
  std::vector<Range> stages = pipeline_blocks(config);
  std::vector<BlockTime> times(static_cast<std::size_t>(config.model.num_hidden_layers) + 2,
                               kLayerMs);
  times.front() = times.back() = {};
  return idle_share(pipeline_schedule(config.parallelism), stages, config.batch.train_batch_size,
                    times, config.parallelism.virtual_pipeline_stages);
}

}  // namespace

TEST_CASE("stages wait for as long as the schedules say") {
  const std::string schedule = GENERATE("gpipe", "1f1b", "interleaved", "zb_h1");
  DYNAMIC_SECTION(schedule) {
    fmt::print("{:<11} {:>6} {:>13} {:>12} {:>12}\n", "schedule", "stages", "micro-batches",
               "waits (ms)", "expected");
    for (int stages = 2; stages <= 8; ++stages) {
      const int micros = 2 * stages;
      const Config config = config_of(schedule, stages, micros);
      const auto parts = static_cast<double>(config.parallelism.virtual_pipeline_stages);
      const double work_ms = micros * parts * kLayerMs.sum(), share = expected_share(config);
      const double waits_ms = step_ms(config) - work_ms,
                   expected_ms = work_ms * share / (1 - share);
      fmt::print("{:<11} {:>6} {:>13} {:>12.1f} {:>12.1f}\n", schedule, stages, micros, waits_ms,
                 expected_ms);
      std::fflush(stdout);
      CHECK(waits_ms == Approx(expected_ms).epsilon(0.05));
    }
  }
}
