#include "hgtrain/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/optim/ema.h"
#include "hgtrain/report/human.h"

#include "batch_loader.h"
#include "device_batch.h"

namespace hgt {
namespace {

/// More than a scale of 2^31 takes to come down to 1: by then it will not do.
constexpr std::int64_t kMostSkipped = 100;

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
      optimizer_(parts.config.optimizer, parts.table, optimizer_buffers(parts.buffers),
                 parts.stream),
      norm_(parts.stream),
      loss_scaler_(parts.config.precision),
      micros_(micro_batches_of(parts.config.batch, parts.comm)),
      buckets_(make_buckets(block_ranges(parts.table), parts.bucket_bytes / 4)),
      schedule_(data_parallel_schedule(parts.model.num_blocks(), micros_.size(), buckets_)) {
  const BatchConfig& batch = parts.config.batch;
  const Range rows{micros_.begin * batch.micro_batch_size, micros_.end * batch.micro_batch_size};
  const SampleForm form = sample_form(parts.config);
  loader_ = std::make_unique<BatchLoader>(parts.train, rows, batch.train_batch_size, form,
                                          state.consumed_samples);
  batch_ = std::make_unique<DeviceBatch>(std::max(rows.size(), batch.micro_batch_size), form,
                                         parts.stream);
  loss_sums_ =
      Buffer("loss sums", std::max<std::int64_t>(micros_.size(), 1) * 8, parts.stream.device());
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
  const Batch& batch = next_batch();
  samples_ = batch.samples;
  batch_->load(batch);
  result_.data_wait_ms = ms_since(start_ns);

  clear(flat_tensor(parts_.buffers.gradients), parts_.stream);
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

const Batch& Trainer::next_batch() {
  const Span span("wait for data");
  return loader_->next();
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
        model.loss_sum(0, loss_sums_.as<double>()[static_cast<std::size_t>(action.micro)]);
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
  MicroBatch batch = batch_->micro_batch(micro * rows, rows);
  batch.step = state_.step;
  batch.first_sample = (micros_.begin + micro) * rows;
  batch.loss_scale = state_.loss_scale.scale / static_cast<double>(tokens_per_step());
  return batch;
}

void Trainer::update() {
  const Span span = Span::phase("update");
  parts_.progress.phase = "reducing gradients";
  const std::int64_t start_ns = now_ns();
  result_.reduced_bytes = parts_.comm.reduced_bytes() - reduced_before_;
  wait_for_sums();
  result_.comm_ms = ms_since(start_ns);
  const double scale = state_.loss_scale.scale;
  result_.loss_scale = scale;
  result_.grad_norm = read_losses_and_norm() / scale;
  exchange_losses();

  parts_.progress.phase = "updating";
  const Rate rate = lr_schedule_.at(state_.optimizer_steps);
  result_.lr = rate.lr;
  if (!std::isfinite(result_.loss) || !std::isfinite(result_.grad_norm)) return skip_update();
  skipped_in_a_row_ = 0;
  change_parameters(rate, scale);
  loss_scaler_.update(false, state_.loss_scale);
}

void Trainer::wait_for_sums() {
  const Span span("wait for sums");
  for (const std::uint64_t ticket : tickets_) parts_.comm.wait(ticket);
}

/// The one moment of a step when the host waits for the device.
double Trainer::read_losses_and_norm() {
  parts_.stream.copy(losses_.data() + micros_.begin, loss_sums_.data(),
                     static_cast<std::size_t>(micros_.size()) * sizeof(double));
  const Span span("gradient_norm", flat_traffic(1));
  return norm_.of(flat_tensor(parts_.buffers.gradients));
}

void Trainer::change_parameters(const Rate& rate, double scale) {
  const FlatBuffers& flat = parts_.buffers;
  // Gradients are read; parameters and the optimizer's state are read and written.
  const Span span("optimizer", flat_traffic(3 + 2 * static_cast<int>(flat.optimizer_state.size())));
  optimizer_.step(rate, clip_factor(result_.grad_norm, parts_.config.gradient_clipping) / scale,
                  ++state_.optimizer_steps);
  flat.round_weights(parts_.stream);
  update_ema(parts_.config.training.ema_decay, flat_tensor(flat.parameters), flat_tensor(flat.ema),
             parts_.stream);
}

Work Trainer::flat_traffic(int passes) const {
  return {.bytes = 4.0 * passes * static_cast<double>(parts_.table.total)};
}

void Trainer::skip_update() {
  if (!parts_.config.precision.fp16) stop_at_bad_tensor();
  result_.skipped = true;
  loss_scaler_.update(true, state_.loss_scale);
  if (++skipped_in_a_row_ == kMostSkipped)
    throw Error(ErrorKind::kGuard,
                fmt::format("the gradients of {} steps in a row overflowed fp16 at loss scale {:g}",
                            kMostSkipped, state_.loss_scale.scale),
                "a lower fp16.loss_scale, 0 for one that adapts itself, or bf16");
}

void Trainer::exchange_losses() {
  const std::size_t micros = losses_.size() - 2;
  const Span span("wait for losses");
  const std::int64_t start_ns = now_ns();
  losses_[micros] = parts_.requests.stop ? 1 : 0;
  losses_[micros + 1] = parts_.requests.checkpoint.exchange(false) ? 1 : 0;
  parts_.comm.all_reduce_sum(std::span(losses_));
  result_.comm_ms += ms_since(start_ns);
  result_.loss = std::accumulate(losses_.begin(), losses_.begin() + micros, 0.0) /
                 static_cast<double>(tokens_per_step());
  result_.stop_requested = losses_[micros] > 0;
  result_.checkpoint_requested = losses_[micros + 1] > 0;
}

void Trainer::stop_at_bad_tensor() const {
  const auto first_bad = [&](const Buffer& flat, const char* what) -> std::string {
    for (const Parameter& p : parts_.table.parameters) {
      std::vector<float> values(static_cast<std::size_t>(p.numel));
      parts_.stream.copy(values.data(), flat.as<float>().data() + p.offset, values.size() * 4);
      parts_.stream.synchronize();
      const std::int64_t at = first_non_finite(values);
      if (at >= 0)
        return fmt::format("the first bad tensor is the {} of {}: element {} is {}", what, p.name,
                           at, human_number(values[static_cast<std::size_t>(at)], 4));
    }
    return {};
  };
  std::string where = first_bad(parts_.buffers.parameters, "weight");
  if (where.empty()) where = first_bad(parts_.buffers.gradients, "gradient");
  if (where.empty()) where = "every weight and gradient is finite";
  throw Error(
      ErrorKind::kGuard,
      fmt::format("step {}: loss is {}, gradient norm is {}; {}", state_.step + 1,
                  human_number(result_.loss, 4), human_number(result_.grad_norm, 4), where),
      "no weight was changed by this step, and checkpoints of steps before it are good; go on "
      "with a lower learning rate, or a longer warmup");
}

double Trainer::evaluate() {
  const Span span = Span::seldom("evaluate", state_.step);
  parts_.progress.phase = "evaluating";
  const Config& config = parts_.config;
  const std::int64_t rows = config.batch.micro_batch_size;
  const std::int64_t samples = std::min(parts_.valid->num_samples(),
                                        config.training.eval_iters * config.batch.train_batch_size);
  std::vector<double> losses(ceil_div(samples, rows));
  const Range mine =
      even_range(static_cast<std::int64_t>(losses.size()), parts_.comm.size(), parts_.comm.rank());
  Batch batch;
  for (std::int64_t micro = mine.begin; micro < mine.end; ++micro) {
    ++parts_.progress.work;
    const Range range{micro * rows, std::min((micro + 1) * rows, samples)};
    read_batch(*parts_.valid, 0, range, sample_form(config), batch);
    batch_->load(batch);
    parts_.model.evaluate(batch_->micro_batch(0, range.size()), loss_sums_.as<double>()[0]);
    parts_.stream.copy(&losses[micro], loss_sums_.data(), sizeof(double));
    parts_.stream.synchronize();
  }
  parts_.comm.all_reduce_sum(std::span(losses));
  return std::accumulate(losses.begin(), losses.end(), 0.0) /
         static_cast<double>(samples * config.training.seq_length);
}

}  // namespace hgt
