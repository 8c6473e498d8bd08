#include "synthetic_run.h"

#include "hgtrain/base/clock.h"
#include "hgtrain/base/philox.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/train/memory_fit.h"
#include "hgtrain/train/model_options.h"
#include "hgtrain/train/use_attention.h"

namespace hgt {
namespace {

/// Samples of tokens that are drawn uniformly from the vocabulary.
class DrawnTokens final : public Dataset {
 public:
  DrawnTokens(std::int64_t seq_length, std::int64_t vocab_size)
      : seq_length_(seq_length), vocab_size_(vocab_size) {}
  std::int64_t num_samples() const override { return kSamples; }
  std::int64_t num_tokens() const override { return kSamples * seq_length_ + 1; }
  std::uint64_t fingerprint() const override { return 0; }
  std::int64_t sample_at(std::int64_t consumed) const override { return consumed % kSamples; }
  void read(std::int64_t sample, std::span<std::int32_t> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto position = static_cast<std::uint64_t>(sample * seq_length_) + i;
      tokens[i] = static_cast<std::int32_t>(philox(0, 0, position)[0] %
                                            static_cast<std::uint64_t>(vocab_size_));
    }
  }

 private:
  static constexpr std::int64_t kSamples = std::int64_t{1} << 20;
  const std::int64_t seq_length_, vocab_size_;
};

/// The config, with the memory of the GPU that is there.
Config planned(Config config, const Stream& stream) {
  if (!stream.device().is_cpu())
    config.hardware.gpu_bytes = plannable_bytes(config, stream.queue());
  return config;
}

}  // namespace

SyntheticRun::SyntheticRun(const Config& config, const Groups& groups)
    : device_(config.hardware.device == "cuda", static_cast<int>(config.hardware.threads),
              config.training.deterministic),
      stream_(device_.get()),
      config_(planned(config, stream_)),
      table_(rank_table(config_)),
      plan_(plan_rank(config_, table_, groups.world->rank(), groups.world->size())),
      buffers_(config_, plan_, stream_.device()),
      slots_(table_, plan_, buffers_),
      model_(Model::create(config_.model, table_, slots_.block_weights(), slots_.block_gradients(),
                           model_options(config_, plan_.shape, groups), stream_)),
      data_(std::make_unique<DrawnTokens>(config.training.seq_length, config.model.vocab_size)) {
  if (stream_.device().is_cpu()) {
    choose_cpu_products(cpu_name(), "");
  } else {
    if (!config.times_products()) set_product_timing(stream_.queue(), ProductTiming::kNone);
    attention_ = use_attention(config_, stream_.queue());
  }
  const HostBuffers host(buffers_, config_, plan_, stream_);
  host.get().initialize(table_, static_cast<std::uint64_t>(config_.training.seed), device_.pool());
  host.store(/*with_state=*/false);
  buffers_.round_weights(buffers_.is_offloaded() ? Stream(device_.pool()) : stream_);
  TrainingState state;
  state.loss_scale = LossScaler(config_.precision).initial();
  trainer_ = std::make_unique<Trainer>(
      Trainer::Parts{config_, table_, plan_, buffers_, slots_, *model_, groups, stream_, *data_,
                     nullptr, progress_, requests_, &device_.pool()},
      state);
}

double SyntheticRun::step() {
  const std::int64_t begin_ns = trainer_->queued_steps() > 0 ? finished_ns_ : now_ns();
  trainer_->queue_step();
  while (trainer_->queued_steps() > trainer_->steps_ahead()) finished_ = trainer_->finish_step();
  finished_ns_ = now_ns();
  return static_cast<double>(finished_ns_ - begin_ns) * 1e-6;
}

}  // namespace hgt
