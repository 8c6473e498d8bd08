#include "hgtrain/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hgtrain/arch/optimizer_state.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/optim/ema.h"
#include "hgtrain/optim/gradient_norm.h"
#include "hgtrain/optim/round.h"

#include "batch_loader.h"

namespace hgt {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The table's blocks as pieces of the flat buffer, padding included.
std::vector<BlockRange> block_ranges(const ParameterTable& table) {
  std::vector<BlockRange> pieces;
  for (const Parameter& p : table.parameters) {
    if (!pieces.empty() && pieces.back().block == p.block) continue;
    if (!pieces.empty()) pieces.back().elements.end = p.offset;
    pieces.push_back({{p.offset, table.total}, p.block});
  }
  return pieces;
}

Optimizer::Buffers optimizer_buffers(const FlatBuffers& flat) {
  Optimizer::Buffers buffers{flat.parameters.as<float>(), flat.gradients.as<float>(), {}};
  for (const Buffer& buffer : flat.optimizer_state) buffers.state.push_back(buffer.as<float>());
  return buffers;
}

Range micro_batches_of(const BatchConfig& batch, const Communicator& comm) {
  return even_range(batch.train_batch_size / batch.micro_batch_size, comm.size(), comm.rank());
}

}  // namespace

FlatBuffers::FlatBuffers(const ParameterTable& table, const Config& config)
    : parameters("parameters", table.total * 4),
      gradients("gradients", table.total * 4),
      compute_dtype(config.precision.compute_dtype()) {
  if (compute_dtype != DType::kF32)
    rounded = Buffer("weights", table.total * static_cast<std::int64_t>(size_of(compute_dtype)));
  for (const std::string& name : hgt::optimizer_state(config.optimizer))
    optimizer_state.emplace_back(name, table.total * 4);
  if (config.training.ema_decay > 0) ema = Buffer("ema", table.total * 4);
}

FlatState FlatBuffers::state() const {
  FlatState state{parameters.as<float>(), {}, compute_dtype, ema.as<float>()};
  for (const Buffer& buffer : optimizer_state)
    state.moments.push_back({buffer.name(), buffer.as<float>()});
  return state;
}

Tensor FlatBuffers::weights() const {
  const Buffer& buffer = compute_dtype == DType::kF32 ? parameters : rounded;
  return Tensor(buffer.data(), {static_cast<std::int64_t>(parameters.as<float>().size())},
                compute_dtype);
}

void FlatBuffers::round_weights(ThreadPool& pool) const {
  if (compute_dtype != DType::kF32) round_to(parameters.as<float>(), weights(), pool);
}

Model::Options model_options(const Config& config) {
  const ActivationSizes sizes = activation_sizes(config);
  return {.max_batch = sizes.batch,
          .max_seq_length = sizes.seq_length,
          .slots = sizes.slots,
          .seed = static_cast<std::uint64_t>(config.training.seed),
          .recompute = sizes.recompute,
          .recomputed_layers = sizes.recomputed_layers};
}

Trainer::Trainer(const Parts& parts, const TrainingState& state)
    : parts_(parts),
      state_(state),
      lr_schedule_(parts.config),
      optimizer_(parts.config.optimizer, parts.table, optimizer_buffers(parts.buffers), parts.pool),
      loss_scaler_(parts.config.precision),
      micros_(micro_batches_of(parts.config.batch, parts.comm)),
      buckets_(make_buckets(block_ranges(parts.table), parts.bucket_bytes / 4)),
      schedule_(data_parallel_schedule(parts.model.num_blocks(), micros_.size(), buckets_)) {
  const BatchConfig& batch = parts.config.batch;
  const Range rows{micros_.begin * batch.micro_batch_size, micros_.end * batch.micro_batch_size};
  loader_ = std::make_unique<BatchLoader>(parts.train, rows, batch.train_batch_size,
                                          sample_form(parts.config), state.consumed_samples);
}

Trainer::~Trainer() = default;

std::int64_t Trainer::tokens_per_step() const {
  return parts_.config.batch.train_batch_size * parts_.config.training.seq_length;
}

StepResult Trainer::step() {
  const Span span = Span::phase("step", state_.step + 1);
  result_ = {};
  parts_.progress.phase = "reading the batch";
  const std::int64_t start_ns = now_ns();
  Batch batch = next_batch();
  result_.data_wait_ms = ms_since(start_ns);
  tokens_ = std::move(batch.tokens);
  targets_ = std::move(batch.targets);
  positions_ = std::move(batch.positions);
  samples_ = std::move(batch.samples);

  clear_gradients();
  losses_.assign(parts_.config.batch.train_batch_size / parts_.config.batch.micro_batch_size + 2,
                 0.0);
  tickets_.clear();
  reduced_before_ = parts_.comm.reduced_bytes();
  for (const Action& action : schedule_) execute(action);

  ++state_.step;
  state_.consumed_samples += parts_.config.batch.train_batch_size;
  state_.consumed_tokens += tokens_per_step();
  parts_.progress.step = state_.step;
  return result_;
}

Batch Trainer::next_batch() {
  const Span span("wait for data");
  return loader_->next();
}

void Trainer::clear_gradients() {
  const Span span("clear_gradients", flat_traffic(1));
  float* gradients = parts_.buffers.gradients.as<float>().data();
  parts_.pool.parallel_for(parts_.table.total, [&](std::int64_t begin, std::int64_t end, int) {
    std::fill(gradients + begin, gradients + end, 0.0f);
  });
}

void Trainer::execute(const Action& action) {
  ++parts_.progress.work;
  Model& model = parts_.model;
  switch (action.kind) {
    case Action::Kind::kForward: {
      const Span span = Span::phase("forward", action.block);
      parts_.progress.phase = "forward";
      model.forward(action.block, 0, micro_batch(action.micro));
      if (action.block + 1 == model.num_blocks())
        losses_[micros_.begin + action.micro] = model.loss_sum(0);
      return;
    }
    case Action::Kind::kBackward: {
      const Span span = Span::phase("backward", action.block);
      parts_.progress.phase = "backward";
      return model.backward(action.block, 0, micro_batch(action.micro));
    }
    case Action::Kind::kReduce: {
      const Range range = buckets_[action.bucket].elements;
      tickets_.push_back(parts_.comm.start_all_reduce_sum(
          parts_.buffers.gradients.as<float>().subspan(range.begin, range.size())));
      return;
    }
    case Action::Kind::kUpdate:
      return update();
  }
}

MicroBatch Trainer::micro_batch(int micro) const {
  const std::int64_t rows = parts_.config.batch.micro_batch_size;
  const std::int64_t seq_length = parts_.config.training.seq_length;
  const std::int64_t size = rows * seq_length;
  return {.tokens_BT = std::span(tokens_).subspan(micro * size, size),
          .targets_BT = std::span(targets_).subspan(micro * size, size),
          .positions_BT = positions_.empty() ? std::span<const std::int32_t>()
                                             : std::span(positions_).subspan(micro * size, size),
          .batch = rows,
          .seq_length = seq_length,
          .step = state_.step,
          .first_sample = (micros_.begin + micro) * rows,
          .loss_scale = state_.loss_scale.scale / static_cast<double>(tokens_per_step())};
}

void Trainer::update() {
  const Span span = Span::phase("update");
  parts_.progress.phase = "reducing gradients";
  const std::int64_t start_ns = now_ns();
  result_.reduced_bytes = parts_.comm.reduced_bytes() - reduced_before_;
  exchange_losses();
  wait_for_sums();
  result_.comm_ms = ms_since(start_ns);

  parts_.progress.phase = "updating";
  const double scale = state_.loss_scale.scale;
  result_.loss_scale = scale;
  result_.grad_norm = gradient_norm() / scale;
  const Rate rate = lr_schedule_.at(state_.optimizer_steps);
  result_.lr = rate.lr;
  if (!std::isfinite(result_.loss) || !std::isfinite(result_.grad_norm)) return skip_update();
  change_parameters(rate, scale);
  loss_scaler_.update(false, state_.loss_scale);
}

void Trainer::wait_for_sums() {
  const Span span("wait for sums");
  for (const std::uint64_t ticket : tickets_) parts_.comm.wait(ticket);
}

double Trainer::gradient_norm() const {
  const Span span("gradient_norm", flat_traffic(1));
  return l2_norm(parts_.buffers.gradients.as<float>(), parts_.pool);
}

void Trainer::change_parameters(const Rate& rate, double scale) {
  const FlatBuffers& flat = parts_.buffers;
  // Gradients are read; parameters and the optimizer's state are read and written.
  const Span span("optimizer", flat_traffic(3 + 2 * static_cast<int>(flat.optimizer_state.size())));
  optimizer_.step(rate, clip_factor(result_.grad_norm, parts_.config.gradient_clipping) / scale,
                  ++state_.optimizer_steps);
  flat.round_weights(parts_.pool);
  update_ema(parts_.config.training.ema_decay, flat.parameters.as<float>(), flat.ema.as<float>(),
             parts_.pool);
}

Work Trainer::flat_traffic(int passes) const {
  return {.bytes = 4.0 * passes * static_cast<double>(parts_.table.total)};
}

void Trainer::skip_update() {
  if (!parts_.config.precision.fp16) stop_at_bad_tensor();
  result_.skipped = true;
  loss_scaler_.update(true, state_.loss_scale);
}

void Trainer::exchange_losses() {
  const std::size_t micros = losses_.size() - 2;
  const Span span("wait for losses");
  losses_[micros] = parts_.requests.stop ? 1 : 0;
  losses_[micros + 1] = parts_.requests.checkpoint.exchange(false) ? 1 : 0;
  parts_.comm.all_reduce_sum(std::span(losses_));
  result_.loss = std::accumulate(losses_.begin(), losses_.begin() + micros, 0.0) /
                 static_cast<double>(tokens_per_step());
  result_.stop_requested = losses_[micros] > 0;
  result_.checkpoint_requested = losses_[micros + 1] > 0;
}

void Trainer::stop_at_bad_tensor() const {
  const auto first_bad = [&](std::span<const float> flat, const char* what) -> std::string {
    for (const Parameter& p : parts_.table.parameters) {
      const std::int64_t at = first_non_finite(flat.subspan(p.offset, p.numel));
      if (at >= 0)
        return fmt::format("the first bad tensor is the {} of {}: element {} is {}", what, p.name,
                           at, flat[p.offset + at]);
    }
    return {};
  };
  std::string where = first_bad(parts_.buffers.parameters.as<float>(), "weight");
  if (where.empty()) where = first_bad(parts_.buffers.gradients.as<float>(), "gradient");
  if (where.empty()) where = "every weight and gradient is finite";
  throw Error(
      ErrorKind::kGuard,
      fmt::format("step {}: loss is {}, gradient norm is {}; {}", state_.step + 1, result_.loss,
                  result_.grad_norm, where),
      "no weight was changed by this step, and checkpoints of steps before it are good; go on "
      "with a lower learning rate, or a longer warmup");
}

double Trainer::evaluate() {
  const Span span = Span::seldom("evaluate", state_.step);
  parts_.progress.phase = "evaluating";
  const Config& config = parts_.config;
  const std::int64_t rows = config.batch.micro_batch_size, seq_length = config.training.seq_length;
  const std::int64_t samples = std::min(parts_.valid->num_samples(),
                                        config.training.eval_iters * config.batch.train_batch_size);
  std::vector<double> losses(ceil_div(samples, rows));
  const Range mine =
      even_range(static_cast<std::int64_t>(losses.size()), parts_.comm.size(), parts_.comm.rank());
  for (std::int64_t micro = mine.begin; micro < mine.end; ++micro) {
    ++parts_.progress.work;
    const Range range{micro * rows, std::min((micro + 1) * rows, samples)};
    const Batch batch = read_batch(*parts_.valid, 0, range, sample_form(config));
    losses[micro] = parts_.model.evaluate({.tokens_BT = batch.tokens,
                                           .targets_BT = batch.targets,
                                           .positions_BT = batch.positions,
                                           .batch = range.size(),
                                           .seq_length = seq_length});
  }
  parts_.comm.all_reduce_sum(std::span(losses));
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(samples * seq_length);
}

}  // namespace hgt
