#include "hgtrain/train/run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/machine_rates.h"
#include "hgtrain/train/process_memory.h"

#include "early_stop.h"
#include "memory_fit.h"
#include "recorder.h"
#include "start.h"
#include "trace_window.h"

namespace hgt {
namespace {

/// All that a rank needs to train, in the order in which it must be made.
class Run {
 public:
  Run(const Config& config, const RunOptions& options, Communicator& comm, ControlChannel& channel,
      const CudaQueue* queue);
  /// Starts from a checkpoint or from the first step, together with the other ranks.
  void start(const RunOptions& options, Communicator& comm, ControlChannel& channel,
             Requests& requests);
  RunOutcome train();

 private:
  PeakRate measure_rates(const RunOptions& options, Communicator& comm);
  static std::unique_ptr<Dataset> open_data(const Config& config, Dataset::Split split);
  void finish_steps(std::int64_t left, bool evaluates);
  StepRecord finish_step();
  StepRecord record_of(const StepResult& result, double step_ms);
  void evaluate(StepRecord& record);
  void save(CheckpointWriter::Reason reason);
  void require_an_update(std::int64_t steps, const RunOutcome& outcome) const;
  bool is_due(std::int64_t interval) const;

  const Config& config_;
  TraceWindow trace_;
  ThreadPool pool_;
  const Stream stream_;
  /// Measured before anything else is allocated, so that the measurement still finds room in memory
  /// that is full later.
  PeakRate peak_rate_;
  const std::unique_ptr<Dataset> train_data_;
  const std::unique_ptr<Dataset> valid_data_;  ///< null if evaluations are off
  const ParameterTable table_;
  const FlatBuffers buffers_;
  const std::unique_ptr<Model> model_;
  Recorder recorder_;
  std::optional<Trainer> trainer_;
  std::int64_t peak_bytes_ = 0;

  // These describe the finished steps.
  std::int64_t finished_ns_ = 0;  ///< when the last one was
  std::int64_t skipped_ = 0;
  bool stop_requested_ = false, checkpoint_requested_ = false;
  std::optional<std::string> early_;  ///< why the run ends before its last step
};

Run::Run(const Config& config, const RunOptions& options, Communicator& comm,
         ControlChannel& channel, const CudaQueue* queue)
    : config_(config),
      trace_(options, comm.rank()),
      pool_(static_cast<int>(config.hardware.threads), config.training.deterministic),
      stream_(queue ? Stream(*queue) : Stream(pool_)),
      peak_rate_(measure_rates(options, comm)),
      train_data_(open_data(config, Dataset::Split::kTrain)),
      valid_data_(config.training.eval_interval > 0 ? open_data(config, Dataset::Split::kValid)
                                                    : nullptr),
      table_(parameter_table(config.model, config.training.no_decay_norms_and_biases)),
      buffers_(table_, config, stream_.device()),
      model_(Model::create(config.model, table_, buffers_.weights(), buffers_.gradient_values(),
                           model_options(config), stream_)),
      recorder_(config, options, table_, comm.rank(), channel) {}

void Run::start(const RunOptions& options, Communicator& comm, ControlChannel& channel,
                Requests& requests) {
  channel.progress().phase = "loading";
  const HostBuffers host(buffers_, table_, config_, stream_);
  const DataFingerprint data =
      comm.rank() == 0 ? DataFingerprint{train_data_->fingerprint(), train_data_->old_fingerprint()}
                       : DataFingerprint{};
  const Start start = prepare_start(config_, options, table_, host.get(), data, pool_, comm);
  host.store();
  buffers_.round_weights(stream_);
  trainer_.emplace(Trainer::Parts{config_, table_, buffers_, *model_, comm, stream_, *train_data_,
                                  valid_data_.get(), channel.progress(), requests},
                   start.state);
  channel.progress().step = start.state.step;
  for (const std::string& damage : start.refused)
    recorder_.notice(damage + "; an older checkpoint is used");
  if (!start.notice.empty()) recorder_.notice(start.notice);
  if (const DType dtype = buffers_.compute_dtype;
      stream_.device().is_cpu() && !cpu_multiplies(dtype))
    recorder_.notice(fmt::format(
        "this CPU has no {0} instructions: {0} saves memory here, but is slower than fp32",
        name_of(dtype)));
  if (options.resume == "auto" && start.checkpoint.empty())
    recorder_.notice("no checkpoint in " + options.run_dir + " yet: starting from step 0");
  fmt::print(stderr, "{} step {}\n", start.state.step > 0 ? "resuming from" : "starting from",
             start.state.step);
  early_ = early_stop(config_.training, start.state, std::nullopt);
  const bool begins = start.state.step < config_.training.train_iters && !early_;
  comm.barrier();  // no rank can refuse any more
  if (begins) recorder_.begin(start.state, start.checkpoint);
  recorder_.started(start.state, start.checkpoint, begins);
}

PeakRate Run::measure_rates(const RunOptions& options, Communicator& comm) {
  const DType dtype = config_.precision.compute_dtype();
  PeakRate peak(stream_, dtype, comm);
  if (options.record_steps > 0) trace_.measure_ceilings(stream_, dtype);
  restart_peak_memory();  // what it took is no part of training
  return peak;
}

std::unique_ptr<Dataset> Run::open_data(const Config& config, Dataset::Split split) {
  const Span span = Span::rare("open data");
  return Dataset::open(config.data, config.training.seq_length, split, config.model.vocab_size);
}

bool Run::is_due(std::int64_t interval) const {
  return interval > 0 && trainer_->state().step % interval == 0;
}

StepRecord Run::record_of(const StepResult& result, double step_ms) {
  const double seconds = step_ms * 1e-3;
  const ProcessMemory memory = memory_in_use(stream_);
  peak_bytes_ = std::max(peak_bytes_, memory.peak_bytes);
  StepRecord record;
  record.step = result.step;
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.lr = result.lr;
  if (config_.precision.fp16) record.loss_scale = result.loss_scale;
  record.step_ms = step_ms;
  record.tokens = trainer_->tokens_per_step();
  record.tokens_per_sec = static_cast<double>(record.tokens) / seconds;
  record.consumed_samples = result.consumed_samples;
  record.samples_per_sec = static_cast<double>(config_.batch.train_batch_size) / seconds;
  record.mem_bytes = memory.bytes;
  record.mem_peak_bytes = peak_bytes_;
  record.comm_ms = result.comm_ms;
  record.data_wait_ms = result.data_wait_ms;
  record.mfu = peak_rate_.share(
      train_flops(config_.model, config_.training.seq_length, record.tokens) / seconds);
  return record;
}

/// Finishes steps until `left` are queued.
void Run::finish_steps(std::int64_t left, bool evaluates) {
  while (trainer_->queued_steps() > left) {
    StepRecord record = finish_step();
    if (evaluates && trainer_->queued_steps() == 0) evaluate(record);
    recorder_.step(record);
    if (!early_) early_ = early_stop(config_.training, trainer_->state(), record.loss);
  }
}

StepRecord Run::finish_step() {
  const StepResult& result = trainer_->finish_step();
  const double step_ms =
      ms_since(std::max(std::exchange(finished_ns_, now_ns()), result.queued_ns));
  fmt::print(stderr, "step {} samples [{}] reduced_bytes {}\n", result.step,
             fmt::join(result.samples, ","), result.reduced_bytes);
  stop_requested_ |= result.stop_requested;
  checkpoint_requested_ |= result.checkpoint_requested;
  if (result.skipped) {
    ++skipped_;
    recorder_.notice(fmt::format("step {} changed nothing: gradients overflowed at loss scale {}",
                                 result.step, result.loss_scale));
  }
  return record_of(result, step_ms);
}

void Run::evaluate(StepRecord& record) {
  record.eval_loss = trainer_->evaluate();
  count_evaluation(*record.eval_loss, trainer_->state());
}

void Run::save(CheckpointWriter::Reason reason) {
  if (!recorder_.prepare_save()) return;
  const auto host = std::make_shared<HostBuffers>(buffers_, table_, config_, stream_);
  host->fetch();
  recorder_.save(trainer_->state(), host->get().state(),
                 stream_.device().is_cpu() ? nullptr : host,  // a copy already
                 reason);
}

RunOutcome Run::train() {
  const TrainingState& state = trainer_->state();
  const std::int64_t first_step = state.step, last_step = config_.training.train_iters;
  trace_.plan(first_step, last_step);
  RunOutcome outcome{.reason = human_plural(last_step, "step") + " done"};
  for (bool running = state.step < last_step && !early_; running;) {
    trace_.before_step(state.step + 1);
    trainer_->queue_step();
    const bool last = state.step >= last_step;
    const bool evaluates = valid_data_ && (last || is_due(config_.training.eval_interval));
    const bool saves = last || is_due(config_.checkpoint.save_interval);
    finish_steps(evaluates || saves ? 0 : trainer_->steps_ahead(), evaluates);
    const bool is_best = config_.checkpoint.keep_best && state.best_eval_step == state.step;
    running = !last && !early_ && !stop_requested_;
    outcome.stopped_early = stop_requested_ && !last && !early_;
    const bool due = !running || saves || checkpoint_requested_;
    if (due || is_best) {
      finish_steps(0, false);
      checkpoint_requested_ = false;
      if (!running) require_an_update(state.step - first_step, outcome);
      save(due ? CheckpointWriter::Reason::kDue : CheckpointWriter::Reason::kBest);
    }
  }
  if (early_) outcome.reason = *early_;
  if (trainer_->state().step == first_step)
    outcome.reason =
        "nothing to do: " + (early_ ? *early_
                                    : fmt::format("{} of {} done before; more with --steps N",
                                                  last_step, human_plural(last_step, "step")));
  if (outcome.stopped_early)
    outcome.reason = fmt::format("stopped after step {}", trainer_->state().step);
  if (skipped_ > 0)
    outcome.reason += fmt::format(", of which {} changed nothing: gradients overflowed", skipped_);
  recorder_.finish();
  trace_.finish();
  return outcome;
}

/// Steps that were all skipped have trained nothing, however few they are. A dynamic loss scale may
/// still have to be found by the steps of a short resumed job.
void Run::require_an_update(std::int64_t steps, const RunOutcome& outcome) const {
  const bool may_find_scale =
      config_.precision.loss_scale == 0 && trainer_->state().optimizer_steps > 0;
  if (skipped_ == 0 || skipped_ < steps || may_find_scale || outcome.stopped_early) return;
  throw Error(ErrorKind::kGuard,
              fmt::format("no weight was changed in {}: every step's gradients overflowed fp16",
                          human_plural(steps, "step")),
              "a lower fp16.loss_scale or fp16.initial_scale_power, or bf16");
}

/// The communicator's own error if that is why the device failed, otherwise `error`.
Error cause_of(const Error& error, Communicator& comm) {
  if (error.kind() != ErrorKind::kDevice) return error;
  try {
    comm.check();
  } catch (const Error& peers) {
    if (peers.kind() == ErrorKind::kPeer) return peers;
  }
  return error;
}

}  // namespace

RunOutcome run_training(const Config& config, const RunOptions& options, Communicator& comm,
                        ControlChannel& channel, Requests& requests, const CudaQueue* queue,
                        const std::function<void(const Error&)>& failed) {
  if (queue) require_memory(config, *queue);
  std::optional<Run> run;  // is still there when `failed` hears why
  const auto told = [&](Error error) {
    if (queue) add_smaller_batch(error, config, *queue);
    if (failed) failed(error);
    return error;
  };
  try {
    run.emplace(config, options, comm, channel, queue);
    run->start(options, comm, channel, requests);
    return run->train();
  } catch (const Error& error) {
    throw told(cause_of(error, comm));
  } catch (const std::exception& error) {
    throw told(error_from(error));
  }
}

}  // namespace hgt
