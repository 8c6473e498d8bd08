#pragma once

#include <memory>
#include <vector>

#include "hgtrain/comm/connect.h"
#include "hgtrain/model/init.h"
#include "hgtrain/train/model_options.h"
#include "hgtrain/train/trainer.h"

#include "fakes.h"
#include "tiny_config.h"

namespace hgt {

/// A job with a GPT-2 whose products are large enough to be cut.
inline Config gpt2_config(const PrecisionConfig& precision = {}) {
  Config config = tiny_config();
  ModelConfig& model = config.model;
  model.vocab_size = 300;
  model.hidden_size = 384;
  model.intermediate_size = 1536;
  model.num_hidden_layers = 1;
  model.num_attention_heads = model.num_key_value_heads = 6;
  model.head_dim = 64;
  model.max_position_embeddings = 40;
  model.resid_pdrop = model.attn_pdrop = 0.1;
  config.batch = {.train_batch_size = 4, .micro_batch_size = 2};
  config.training.seq_length = 40;
  config.precision = precision;
  config.precision.initial_scale_power = 8;
  return config;
}

/// One worker that trains it.
class Gpt2Run {
 public:
  explicit Gpt2Run(const Config& config)
      : config_(config),
        pool_(static_cast<int>(config.hardware.threads), config.training.deterministic),
        table_(parameter_table(config.model, false)),
        plan_(plan_rank(config, table_)),
        buffers_(config, plan_),
        slots_(table_, plan_, buffers_),
        data_(1000, config.training.seq_length),
        model_(Model::create(config_.model, table_, slots_.block_weights(),
                             slots_.block_gradients(), model_options(config_), pool_)),
        comm_(make_self_communicator()) {
    buffers_.initialize(table_, 7, pool_);
    buffers_.round_weights(pool_);
    TrainingState state;
    state.loss_scale = LossScaler(config_.precision).initial();
    trainer_ = std::make_unique<Trainer>(
        Trainer::Parts{config_, table_, plan_, buffers_, slots_, *model_, *comm_, pool_, data_,
                       nullptr, progress_, requests_},
        state);
  }
  const StepResult& step() { return trainer_->step(); }
  std::span<const std::uint16_t> parameters() const {
    return buffers_.parameters.as<const std::uint16_t>();
  }

 private:
  const Config config_;
  ThreadPool pool_;
  const ParameterTable table_;
  const RankPlan plan_;
  const FlatBuffers buffers_;
  const UnitSlots slots_;
  const FakeDataset data_;
  const std::unique_ptr<Model> model_;
  const std::unique_ptr<Communicator> comm_;
  Progress progress_;
  Requests requests_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace hgt
