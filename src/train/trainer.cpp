#include "hgtrain/train/trainer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/arch/activations.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/stochastic_rounding.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/config/config.h"
#include "hgtrain/parallel/verify.h"
#include "hgtrain/wire/phases.h"

#include "bad_tensor.h"
#include "batch_loader.h"
#include "device_batch.h"
#include "host_copies.h"
#include "mean_loss.h"
#include "parameter_update.h"
#include "pipeline_exchange.h"
#include "step_exchange.h"
#include "step_graphs.h"
#include "unit_exchange.h"
#include "wait_clock.h"

namespace hgt {
namespace {

/// More skipped steps in a row than a loss scale of 2^31 needs to fall to 1: after these, the run
/// will not recover.
constexpr std::int64_t kMaxSkipped = 100;

/// After how many micro-batches a stage that splits its backward reuses memory; 0 if it does not
/// split it.
int split_period(const Config& config, const StepShape& shape) {
  return shape.split() ? static_cast<int>(activation_sizes(config, shape).front().period()) : 0;
}

}  // namespace

Trainer::Trainer(const Parts& parts, const TrainingState& state)
    : parts_(parts),
      updates_(parts.buffers.is_offloaded() ? Stream(*parts.pool) : parts.stream),
      state_(state),
      finished_steps_(state.step),
      lr_schedule_(parts.config),
      loss_scaler_(parts.config.precision),
      split_period_(split_period(parts.config, parts.plan.shape)) {
  const BatchConfig& batch = parts.config.batch;
  const Range micros = parts.plan.micro_batches;
  const Range rows{micros.begin * batch.micro_batch_size, micros.end * batch.micro_batch_size};
  const SampleForm form = sample_form(parts.config, parts.plan);
  loader_ = std::make_unique<BatchLoader>(parts.train, rows, batch.train_batch_size, form,
                                          state.consumed_samples);
  batch_ = std::make_unique<DeviceBatch>(std::max(rows.size(), batch.micro_batch_size),
                                         batch.micro_batch_size, form, parts.stream,
                                         parts.plan.shape.slot_count());
  exchange_ = std::make_unique<StepExchange>(
      batch.train_batch_size / batch.micro_batch_size, std::ssize(tensor_pieces(parts.table)),
      parts.stream, updates_, parts.groups.world->rank(), parts.groups.world->size());
  graphs_ = std::make_unique<StepGraphs>(parts.stream, parts.config.hardware.cuda_graphs);
  update_ = std::make_unique<ParameterUpdate>(parts_, *exchange_, updates_);
  if (parts.groups.tensor)
    shared_gradients_.emplace(partial_gradients(parts.table, parts.groups.tensor->size(),
                                                parts.config.parallelism.sequence_parallel),
                              *parts.groups.tensor, parts.stream);
  loss_sums_ =
      Buffer("losses of micro-batches",
             evaluation_round(parts.plan.shape) * static_cast<std::int64_t>(sizeof(double)),
             parts.stream.device());
  if (const std::string fault = find_fault(parts.plan.shape, parts.plan.schedule); !fault.empty())
    throw Error(ErrorKind::kInternal, "the schedule is not sound: " + fault);
  clock_ = std::make_unique<WaitClock>(parts.stream);
  units_ = std::make_unique<UnitExchange>(
      parts.plan, parts.buffers, parts.slots, *parts.groups.data, parts.stream, exchange_->update(),
      *clock_, parts.config.gradient_sum_dtype(),
      !update_->sums_squares() && parts.groups.data == parts.groups.world);
  const StepShape& shape = parts.plan.shape;
  micros_.resize(static_cast<std::size_t>(shape.slot_count()));
  pipeline_ = std::make_unique<PipelineExchange>(shape, parts.model, parts.slots, parts.groups,
                                                 parts.stream, *clock_);
  if (parts.buffers.sends_weights()) {
    for (int unit = 0; unit < std::ssize(shape.units); ++unit) units_->send(unit);
    units_->finish_sending();
  }
  if (shape.gathers_after_update())
    for (int unit = 0; unit < std::ssize(shape.units); ++unit) units_->gather(unit);
  if (shape.is_tied_across()) copy_tied();
}

Trainer::~Trainer() = default;

std::int64_t Trainer::tokens_per_step() const {
  return parts_.config.batch.train_batch_size * parts_.config.training.seq_length;
}

std::int64_t Trainer::steps_ahead() const {
  const TrainingConfig& training = parts_.config.training;
  const bool depends =
      parts_.config.precision.fp16 || (training.target_loss && training.eval_interval == 0);
  return updates_.device().is_cpu() || depends ? 0 : 1;
}

void Trainer::queue_step(const RankUsage& usage) {
  const Span span = Span::phase("step", state_.step + 1);
  usage_ = usage;
  parts_.progress.begun = state_.step + 1;
  StepResult& result = start_result();
  parts_.progress.phase = "reading the batch";
  const std::int64_t start_ns = result.queued_ns = now_ns();
  const Batch& batch = next_batch();
  result.samples = batch.samples;
  batch_->load(
      batch, {state_.step, parts_.plan.micro_batches.begin * parts_.config.batch.micro_batch_size});
  result.data_wait_ms = ms_since(start_ns);
  if (std::exchange(captured_loss_scale_, state_.loss_scale.scale) != state_.loss_scale.scale)
    graphs_->forget();
  prepare_graphs();

  clock_->begin_step();
  units_->clear_gradients();
  pipeline_->clear_gradients();
  exchange_->clear_sums();
  reduced_before_ = parts_.groups.data->reduced_bytes();
  const std::int64_t waited_before_ns = waited_in_layers_ns();
  const std::uint64_t sent_before = parts_.groups.sent_bytes();
  for (const Action& action : parts_.plan.schedule.actions) execute(action);
  parts_.progress.action = "";
  clock_->add_ns(waited_in_layers_ns() - waited_before_ns);
  result.sent_bytes = parts_.groups.sent_bytes() - sent_before;

  ++state_.step;
  result.consumed_samples = state_.consumed_samples += parts_.config.batch.train_batch_size;
  state_.consumed_tokens += tokens_per_step();
}

/// Waits until all work of the previous step is done, if graphs were captured in it: no peer needs
/// more of this rank for that.
void Trainer::prepare_graphs() {
  if (!graphs_->has_new() && !update_->graphs().has_new()) return;
  wait_for_collectives();
  CudaEvent done(parts_.stream.queue());
  done.record(parts_.stream.queue());
  wait_on_host(done, *parts_.groups.world);
  graphs_->prepare();
  update_->graphs().prepare();
}

std::int64_t Trainer::waited_in_layers_ns() const {
  std::int64_t sum = 0;
  for (const Communicator* const group : {parts_.groups.tensor, parts_.groups.context})
    if (group) sum += group->waited_ns();
  return sum;
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
  parts_.progress.phase = kStepEndPhase;
  StepExchange::Results results;
  parts_.progress.wait("the device", 0, [&] { results = exchange_->take(*parts_.groups.world); });
  const auto& [update, stop, checkpoint, usage] = results;
  StepResult& result = result_of(++finished_steps_);
  result.loss = update.loss;
  result.grad_norm = update.norm;
  result.comm_ms = clock_->take_ms(*parts_.groups.world);
  result.usage = usage;
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
  using Kind = Action::Kind;
  ++parts_.progress.work;
  parts_.progress.action = text_of(action);
  switch (action.kind) {
    case Kind::kForward:
      return forward(action);
    case Kind::kBackward:
    case Kind::kBackwardInput:
      return backward(action);
    case Kind::kBackwardWeights:
      return backward_weights(action);
    case Kind::kGather:
      return units_->gather(action.unit);
    case Kind::kRelease:
      return units_->release(action.unit);
    case Kind::kClear:
      return units_->clear(action.unit);
    case Kind::kReduce:
      return reduce(action.unit);
    case Kind::kAccumulate:
      return units_->accumulate(action.unit);
    case Kind::kUpdate:
      return update();
    case Kind::kReceiveInput:
      start_micro_batch(action, step_rows());
      return pipeline_->receive_input(action, micro_in(action.slot));
    case Kind::kSendOutput:
      return pipeline_->send_output(action, micro_in(action.slot));
    case Kind::kReceiveGradient:
      return pipeline_->receive_gradient(action, micro_in(action.slot));
    case Kind::kSendGradient:
      return pipeline_->send_gradient(action, micro_in(action.slot));
    case Kind::kSumTied:
      return pipeline_->sum_tied();
    case Kind::kCopyTied:
      return copy_tied();
  }
}

void Trainer::reduce(int unit) {
  if (unit == 0 && parts_.plan.shape.pipeline.is_first()) pipeline_->wait_for_tie();
  if (shared_gradients_)
    shared_gradients_->sum(parts_.plan.shape.units[static_cast<std::size_t>(unit)].elements,
                           parts_.slots.gradients(unit));
  units_->reduce(unit);
}

void Trainer::copy_tied() {
  units_->require_parameters(parts_.plan.shape.first_block());
  pipeline_->copy_tied();
}

template <class Compute>
void Trainer::run_block(const Action& action, const Compute& compute) {
  graphs_->run({action.kind, action.block, model_slot(action)}, compute);
}

/// The number of a micro-batch's slot for the model: if its backward is split, that from which its
/// slots in both halves follow.
int Trainer::model_slot(const Action& action) const {
  return split_period_ > 0 ? action.micro % split_period_ : action.slot;
}

void Trainer::forward(const Action& action) {
  const Span span = Span::phase("forward", action.block, action.micro);
  parts_.progress.phase = kForwardPhase;
  Model& model = parts_.model;
  const StepShape& shape = parts_.plan.shape;
  const bool is_head = shape.is_head(action.block);
  if (action.block == 0) start_micro_batch(action, step_rows());
  units_->require_parameters(action.block);
  pipeline_->before_forward(action);
  run_block(action, [&] {
    model.forward(action.block, model_slot(action), micro_in(action.slot));
    if (is_head) model.loss_sum(model_slot(action), loss_sums_.as<double>().data());
  });
  if (is_head && parts_.plan.gives_losses())
    parts_.stream.copy(exchange_->loss(parts_.plan.micro_batches.begin + action.micro),
                       loss_sums_.data(), sizeof(double));
}

void Trainer::backward(const Action& action) {
  const Span span = Span::phase("backward", action.block, action.micro);
  parts_.progress.phase = kBackwardPhase;
  units_->require_parameters(action.block);
  pipeline_->before_backward(action);
  run_block(action, [&] {
    parts_.model.backward(action.block, model_slot(action), micro_in(action.slot));
  });
}

/// A later micro-batch may be in the slot already: only its size counts.
void Trainer::backward_weights(const Action& action) {
  const Span span = Span::phase("backward of weights", action.block, action.micro);
  parts_.progress.phase = kBackwardPhase;
  run_block(action, [&] {
    parts_.model.backward_weights(action.block, model_slot(action), micro_in(action.slot));
  });
}

std::int64_t Trainer::step_rows() const {
  return parts_.plan.micro_batches.size() * parts_.config.batch.micro_batch_size;
}

/// Puts the action's micro-batch into its slot, if the batch is that long.
void Trainer::start_micro_batch(const Action& action, std::int64_t batch_rows) {
  const std::int64_t rows = parts_.config.batch.micro_batch_size, begin = action.micro * rows;
  MicroBatch& batch = micros_[static_cast<std::size_t>(action.slot)];
  batch = batch_->stage_micro_batch(begin, std::min(rows, batch_rows - begin), action.slot);
  batch.loss_scale = state_.loss_scale.scale / static_cast<double>(tokens_per_step());
}

void Trainer::update() {
  const Span span = Span::phase("update");
  parts_.progress.phase = kUpdatePhase;
  StepResult& result = result_of(state_.step + 1);
  result.reduced_bytes = parts_.groups.data->reduced_bytes() - reduced_before_;
  exchange_->send(
      constants(),
      {.stop = parts_.requests.stop, .checkpoint = parts_.requests.checkpoint.exchange(false)},
      usage_);
  pipeline_->wait_for_all();
  units_->wait_for_sums();
  update_->queue(*units_, *clock_);
  exchange_->fetch();
}

Update Trainer::constants() {
  const Rate rate = lr_schedule_.at(state_.optimizer_steps);
  StepResult& result = result_of(state_.step + 1);
  Update out = update_->constants(rate, ++state_.optimizer_steps);
  result.lr = rate.lr;
  result.loss_scale = out.loss_scale = state_.loss_scale.scale;
  out.clip = parts_.config.gradient_clipping;
  out.tokens = static_cast<double>(tokens_per_step());
  out.rounding_key =
      rounding_key(static_cast<std::uint64_t>(parts_.config.training.seed), state_.optimizer_steps);
  out.halt_on_nonfinite = parts_.config.precision.fp16 ? 0 : 1;
  return out;
}

void Trainer::skip_update(const StepResult& result) {
  if (!parts_.config.precision.fp16) {
    units_->wait_for_all();
    stop_at_bad_tensor(parts_, update_->slices(), updates_, result);
  }
  --state_.optimizer_steps;
  loss_scaler_.update(true, state_.loss_scale);
  if (++skipped_in_a_row_ == kMaxSkipped)
    throw Error(ErrorKind::kCheck,
                fmt::format("the gradients of {} steps in a row overflowed fp16 at loss scale {}",
                            kMaxSkipped, state_.loss_scale.scale),
                loss_scaler_.overflow_hint());
}

double Trainer::evaluate() {
  const Span span = Span::rare("evaluate", state_.step);
  parts_.progress.phase = kEvaluationPhase;
  const Config& config = parts_.config;
  const std::int64_t samples = std::min(parts_.valid->num_samples(),
                                        config.training.eval_iters * config.batch.train_batch_size);
  const StepShape& shape = parts_.plan.shape;
  const std::int64_t round = evaluation_round(shape), rows = config.batch.micro_batch_size;
  const EvaluationSchedule whole = make_evaluation(shape, round);
  for (const Action& action : whole.before) execute(action);
  const auto evaluate_rows = [&](std::int64_t count) {
    const std::int64_t micros = (count + rows - 1) / rows;
    evaluate(micros == round ? whole.round : make_evaluation(shape, micros).round, count);
  };
  const double loss = mean_loss({.config = config,
                                 .groups = parts_.groups,
                                 .form = sample_form(config, parts_.plan),
                                 .share = parts_.plan.at.data,
                                 .shares = parts_.plan.layout.data_size,
                                 .has_losses = parts_.plan.gives_losses(),
                                 .stream = parts_.stream,
                                 .data = *parts_.valid,
                                 .batch = *batch_,
                                 .loss_sums = loss_sums_,
                                 .round = round,
                                 .progress = parts_.progress,
                                 .evaluate = evaluate_rows},
                                samples);
  for (const Action& action : whole.after) execute(action);
  return loss;
}

void Trainer::evaluate(const std::vector<Action>& actions, std::int64_t rows) {
  using Kind = Action::Kind;
  for (const Action& action : actions) {
    parts_.progress.action = text_of(action);
    if (action.kind == Kind::kReceiveInput) {
      start_micro_batch(action, rows);
      pipeline_->receive_input(action, micro_in(action.slot));
    } else if (action.kind == Kind::kForward) {
      if (action.block == 0) start_micro_batch(action, rows);
      units_->require_parameters(action.block);
      pipeline_->before_forward(action);
      parts_.model.evaluate_block(action.block, action.slot, micro_in(action.slot));
      if (parts_.plan.shape.is_head(action.block))
        parts_.model.loss_sum(action.slot, &loss_sums_.as<double>()[action.micro]);
    } else {
      execute(action);
    }
  }
  parts_.progress.action = "";
}

void Trainer::wait_for_collectives() {
  units_->wait_for_all();
  pipeline_->wait_for_all();
}

}  // namespace hgt
