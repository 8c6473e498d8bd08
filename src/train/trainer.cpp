#include "hgtrain/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/element.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/ops/flat.h"
#include "hgtrain/optim/ema.h"
#include "hgtrain/optim/norm.h"
#include "hgtrain/report/human.h"

#include "batch_loader.h"
#include "device_batch.h"
#include "mean_loss.h"
#include "step_exchange.h"
#include "step_graphs.h"

namespace hgt {
namespace {

/// More skipped steps in a row than a loss scale of 2^31 needs to fall to 1: after these, the run
/// will not recover.
constexpr std::int64_t kMaxSkipped = 100;

/// Copied from the stream's device.
std::vector<float> floats_of(const Tensor& values, Stream stream) {
  const auto count = static_cast<std::size_t>(values.numel());
  std::vector<std::byte> copy(count * size_of(values.dtype()));
  stream.copy(copy.data(), values.raw(), copy.size());
  stream.synchronize();
  std::vector<float> out(count);
  visit_element(values.dtype(), [&]<class T>(T) {
    const T* const from = reinterpret_cast<const T*>(copy.data());
    std::copy(from, from + count, out.begin());
  });
  return out;
}

Range micro_batches_of(const BatchConfig& batch, const Communicator& comm) {
  return even_range(batch.train_batch_size / batch.micro_batch_size, comm.size(), comm.rank());
}

std::int64_t bucket_elements(const Trainer::Parts& parts) {
  return parts.bucket_elements > 0
             ? parts.bucket_elements
             : default_bucket_elements(parts.stream.device(), parts.comm.size());
}

}  // namespace

std::int64_t default_bucket_elements(Device device, int ranks) {
  return device.is_cpu() ? std::int64_t{4} << 20 : std::int64_t{1'000'000} * std::max(ranks, 40);
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
      finished_steps_(state.step),
      lr_schedule_(parts.config),
      optimizer_(parts.config.optimizer, parts.table, parts.buffers.optimizer_buffers(),
                 parts.stream),
      loss_scaler_(parts.config.precision),
      micros_(micro_batches_of(parts.config.batch, parts.comm)),
      buckets_(make_buckets(parts.table.blocks(), bucket_elements(parts))),
      schedule_(data_parallel_schedule(parts.model.num_blocks(), micros_.size(), buckets_)) {
  const BatchConfig& batch = parts.config.batch;
  const Range rows{micros_.begin * batch.micro_batch_size, micros_.end * batch.micro_batch_size};
  const SampleForm form = sample_form(parts.config);
  loader_ = std::make_unique<BatchLoader>(parts.train, rows, batch.train_batch_size, form,
                                          state.consumed_samples);
  batch_ = std::make_unique<DeviceBatch>(std::max(rows.size(), batch.micro_batch_size),
                                         batch.micro_batch_size, form, parts.stream);
  exchange_ =
      std::make_unique<StepExchange>(batch.train_batch_size / batch.micro_batch_size, parts.stream);
  graphs_ = std::make_unique<StepGraphs>(parts.stream, parts.config.hardware.cuda_graphs);
  loss_sum_ = Buffer("loss of a micro-batch", sizeof(double), parts.stream.device());
  squares_ = Buffer("squares of gradients", optimizer_.pieces().total() * 8, parts.stream.device());
}

Trainer::~Trainer() = default;

std::int64_t Trainer::tokens_per_step() const {
  return parts_.config.batch.train_batch_size * parts_.config.training.seq_length;
}

std::int64_t Trainer::steps_ahead() const {
  const TrainingConfig& training = parts_.config.training;
  const bool depends =
      parts_.config.precision.fp16 || (training.target_loss && training.eval_interval == 0);
  return parts_.stream.device().is_cpu() || depends ? 0 : 1;
}

void Trainer::queue_step() {
  const Span span = Span::phase("step", state_.step + 1);
  StepResult& result = start_result();
  parts_.progress.phase = "reading the batch";
  const std::int64_t start_ns = result.queued_ns = now_ns();
  const Batch& batch = next_batch();
  result.samples = batch.samples;
  batch_->load(batch, {state_.step, micros_.begin * parts_.config.batch.micro_batch_size});
  result.data_wait_ms = ms_since(start_ns);
  if (std::exchange(captured_loss_scale_, state_.loss_scale.scale) != state_.loss_scale.scale)
    graphs_->forget();

  clear(parts_.buffers.gradient_values(), parts_.stream, &exchange_->update()->halted);
  exchange_->clear_losses();
  reduced_before_ = parts_.comm.reduced_bytes();
  for (const Action& action : schedule_) execute(action);

  ++state_.step;
  result.consumed_samples = state_.consumed_samples += parts_.config.batch.train_batch_size;
  state_.consumed_tokens += tokens_per_step();
}

/// The next step's result. It reuses the memory of the step two before it, which is finished.
StepResult& Trainer::start_result() {
  StepResult& result = result_of(state_.step + 1);
  std::vector<std::int64_t> samples = std::move(result.samples);
  result = {};
  result.samples = std::move(samples);
  result.step = state_.step + 1;
  return result;
}

const StepResult& Trainer::finish_step() {
  parts_.progress.phase = "waiting for the step";
  const auto [update, stop, checkpoint, comm_ms] = exchange_->take(parts_.comm);
  StepResult& result = result_of(++finished_steps_);
  result.loss = update.loss;
  result.grad_norm = update.norm;
  result.comm_ms = comm_ms;
  result.stop_requested = stop > 0;
  result.checkpoint_requested = checkpoint > 0;
  result.skipped = update.skip != 0;
  if (result.skipped) {
    skip_update(result);
  } else {
    skipped_in_a_row_ = 0;
    loss_scaler_.update(false, state_.loss_scale);
  }
  parts_.progress.step = result.step;
  return result;
}

const Batch& Trainer::next_batch() {
  const Span span("wait for data");
  return loader_->next();
}

void Trainer::execute(const Action& action) {
  ++parts_.progress.work;
  switch (action.kind) {
    case Action::Kind::kForward: {
      const Span span = Span::phase("forward", action.block);
      parts_.progress.phase = "forward";
      return forward(action);
    }
    case Action::Kind::kBackward: {
      const Span span = Span::phase("backward", action.block);
      parts_.progress.phase = "backward";
      return graphs_->run({action.kind, action.block},
                          [&] { parts_.model.backward(action.block, 0, micro_); });
    }
    case Action::Kind::kReduce: {
      const Range range = buckets_[action.bucket].elements;
      parts_.comm.start_all_reduce_sum(
          parts_.buffers.gradients.as<float>().subspan(range.begin, range.size()));
      return;
    }
    case Action::Kind::kUpdate:
      return update();
  }
}

void Trainer::forward(const Action& action) {
  Model& model = parts_.model;
  const bool last = action.block + 1 == model.num_blocks();
  if (action.block == 0) micro_ = micro_batch(action.micro);
  graphs_->run({action.kind, action.block}, [&] {
    model.forward(action.block, 0, micro_);
    if (last) model.loss_sum(0, *loss_sum_.as<double>().data());
  });
  if (last)
    parts_.stream.copy(exchange_->loss(micros_.begin + action.micro), loss_sum_.data(),
                       sizeof(double));
}

MicroBatch Trainer::micro_batch(int micro) {
  const std::int64_t rows = parts_.config.batch.micro_batch_size;
  MicroBatch batch = batch_->stage_micro_batch(micro * rows, rows);
  batch.loss_scale = state_.loss_scale.scale / static_cast<double>(tokens_per_step());
  return batch;
}

void Trainer::update() {
  const Span span = Span::phase("update");
  parts_.progress.phase = "updating";
  StepResult& result = result_of(state_.step + 1);
  result.reduced_bytes = parts_.comm.reduced_bytes() - reduced_before_;
  exchange_->send(constants(), parts_.requests.stop, parts_.requests.checkpoint.exchange(false));
  exchange_->begin_wait();
  sum_losses();
  exchange_->end_wait();
  graphs_->run({Action::Kind::kUpdate}, [&] { change_parameters(); });
  exchange_->fetch();
}

Update Trainer::constants() {
  const Rate rate = lr_schedule_.at(state_.optimizer_steps);
  StepResult& result = result_of(state_.step + 1);
  Update out = optimizer_.constants(rate, ++state_.optimizer_steps);
  result.lr = rate.lr;
  result.loss_scale = out.loss_scale = state_.loss_scale.scale;
  out.clip = parts_.config.gradient_clipping;
  out.tokens = static_cast<double>(tokens_per_step());
  out.rounding_key =
      rounding_key(static_cast<std::uint64_t>(parts_.config.training.seed), state_.optimizer_steps);
  out.halt_on_nonfinite = parts_.config.precision.fp16 ? 0 : 1;
  return out;
}

/// Runs after the all-reduces of the gradients: once this one is done, so are they.
void Trainer::sum_losses() {
  const Span span("wait for sums");
  parts_.comm.all_reduce_sum(exchange_->sums());
}

void Trainer::change_parameters() {
  const FlatBuffers& flat = parts_.buffers;
  const Pieces& pieces = optimizer_.pieces();
  const Tensor squares(squares_.data(), {pieces.total()}, DType::kF64, squares_.device());
  Update* const update = exchange_->update();
  squares_of_pieces({flat.gradient_values()}, pieces, squares, parts_.stream);
  prepare_update(exchange_->losses(), squares, update, parts_.stream);
  const Span span("optimizer", update_traffic());
  optimizer_.prepare(update);
  optimizer_.step(update);
  update_ema(parts_.config.training.ema_decay, {flat.parameter_values()}, {flat.ema_values()},
             pieces, update, parts_.stream);
}

/// Gradients are read; parameters and the optimizer's state are read and written; weights written.
Work Trainer::update_traffic() const {
  const FlatBuffers& flat = parts_.buffers;
  std::int64_t bytes = flat.gradients.bytes() + 2 * flat.parameters.bytes() + flat.rounded.bytes();
  for (const Buffer& state : flat.optimizer_state) bytes += 2 * state.bytes();
  return {.bytes = static_cast<double>(bytes)};
}

void Trainer::skip_update(const StepResult& result) {
  if (!parts_.config.precision.fp16) stop_at_bad_tensor(result);
  --state_.optimizer_steps;
  loss_scaler_.update(true, state_.loss_scale);
  if (++skipped_in_a_row_ == kMaxSkipped)
    throw Error(ErrorKind::kGuard,
                fmt::format("the gradients of {} steps in a row overflowed fp16 at loss scale {}",
                            kMaxSkipped, state_.loss_scale.scale),
                parts_.config.precision.loss_scale > 0
                    ? "a lower fp16.loss_scale, 0 for one that adapts itself, or bf16"
                    : "a lower fp16.initial_scale_power, or bf16");
}

void Trainer::stop_at_bad_tensor(const StepResult& result) const {
  const auto first_bad = [&](const Tensor& flat, const char* what) -> std::string {
    for (const Parameter& p : parts_.table.parameters) {
      const std::vector<float> values =
          floats_of(flat.slice(0, p.offset, p.offset + p.numel), parts_.stream);
      const auto found =
          std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
      if (const auto at = found - values.begin(); found != values.end())
        return fmt::format("the first bad tensor is the {} of {}: element {} is {}", what, p.name,
                           at, human_number(values[static_cast<std::size_t>(at)], 4));
    }
    return {};
  };
  std::string where = first_bad(parts_.buffers.parameter_values(), "weight");
  if (where.empty()) where = first_bad(parts_.buffers.gradient_values(), "gradient");
  if (where.empty()) where = "every weight and gradient is finite";
  throw Error(ErrorKind::kGuard,
              fmt::format("step {}: loss is {}, gradient norm is {}; {}", result.step,
                          human_number(result.loss, 4), human_number(result.grad_norm, 4), where),
              "lower the learning rate, or lengthen the warmup; this step changed no weight");
}

double Trainer::evaluate() {
  const Span span = Span::rare("evaluate", state_.step);
  parts_.progress.phase = "evaluating";
  const Config& config = parts_.config;
  const std::int64_t samples = std::min(parts_.valid->num_samples(),
                                        config.training.eval_iters * config.batch.train_batch_size);
  return mean_loss({config, parts_.model, parts_.comm, parts_.stream, *parts_.valid, *batch_,
                    loss_sum_, parts_.progress},
                   samples);
}

}  // namespace hgt
