#include "hgtrain/train/run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/ops/gemm.h"
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
      Requests& requests, const CudaQueue* queue);
  RunOutcome train();

 private:
  static std::unique_ptr<Dataset> open_data(const Config& config, Dataset::Split split);
  StepRecord record_of(const StepResult& result, double step_ms);
  void log_step(const StepResult& result) const;
  void save();
  bool is_due(std::int64_t interval) const;

  const Config& config_;
  TraceWindow trace_;
  ThreadPool pool_;
  const Stream stream_;
  const std::unique_ptr<Dataset> train_data_;
  const std::unique_ptr<Dataset> valid_data_;  ///< null where evaluations are off
  const ParameterTable table_;
  const FlatBuffers buffers_;
  const std::unique_ptr<Model> model_;
  Recorder recorder_;
  std::optional<Trainer> trainer_;
  std::int64_t peak_bytes_ = 0;
  double world_flops_ = 0;  ///< peak matrix rate of all ranks together, as far as known
};

double sum(double value, Communicator& comm) {
  comm.all_reduce_sum(std::span(&value, 1));
  return value;
}

Run::Run(const Config& config, const RunOptions& options, Communicator& comm,
         ControlChannel& channel, Requests& requests, const CudaQueue* queue)
    : config_(config),
      trace_(options, comm.rank()),
      pool_(static_cast<int>(config.hardware.threads), config.training.deterministic),
      stream_(queue ? Stream(*queue) : Stream(pool_)),
      train_data_(open_data(config, Dataset::Split::kTrain)),
      valid_data_(config.training.eval_interval > 0 ? open_data(config, Dataset::Split::kValid)
                                                    : nullptr),
      table_(parameter_table(config.model, config.training.no_decay_norms_and_biases)),
      buffers_(table_, config, stream_.device()),
      model_(Model::create(config.model, table_, buffers_.weights(),
                           flat_tensor(buffers_.gradients), model_options(config), stream_)),
      recorder_(config, options, table_, comm.rank(), channel) {
  channel.progress().phase = "loading";
  const HostBuffers host(buffers_, table_, config, stream_);
  const Start start =
      prepare_start(config, options, table_, host.get(), train_data_->fingerprint(), pool_, comm);
  host.store();
  buffers_.round_weights(stream_);
  comm.barrier();  // all ranks measure at once, as they will compute
  const double flops = measure_matrix_rate(stream_, buffers_.compute_dtype);
  world_flops_ = sum(flops, comm);
  if (options.record_steps > 0) {
    peak_bytes_ = memory_in_use(stream_).peak_bytes;
    trace_.measure_ceilings(stream_, buffers_.compute_dtype);
    restart_peak_memory();  // what is copied to measure is no part of training
  }
  trainer_.emplace(Trainer::Parts{config, table_, buffers_, *model_, comm, stream_, *train_data_,
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
  fmt::print(stderr, "goes on after step {}\n", start.state.step);
  recorder_.started(start.state, start.checkpoint);
}

std::unique_ptr<Dataset> Run::open_data(const Config& config, Dataset::Split split) {
  const Span span = Span::seldom("open data");
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
  record.step = trainer_->state().step;
  record.loss = result.loss;
  record.grad_norm = result.grad_norm;
  record.lr = result.lr;
  if (config_.precision.fp16) record.loss_scale = result.loss_scale;
  record.step_ms = step_ms;
  record.tokens = trainer_->tokens_per_step();
  record.tokens_per_sec = static_cast<double>(record.tokens) / seconds;
  record.consumed_samples = trainer_->state().consumed_samples;
  record.samples_per_sec = static_cast<double>(config_.batch.train_batch_size) / seconds;
  record.mem_bytes = memory.bytes;
  record.mem_peak_bytes = peak_bytes_;
  record.comm_ms = result.comm_ms;
  record.data_wait_ms = result.data_wait_ms;
  const double flops =
      train_flops(config_.model, config_.training.seq_length, record.tokens) / seconds;
  // It may have been measured while the machine was busy.
  world_flops_ = std::max(world_flops_, flops);
  record.mfu = flops / world_flops_;
  return record;
}

void Run::log_step(const StepResult& result) const {
  fmt::print(stderr, "step {} samples [{}] reduced_bytes {}\n", trainer_->state().step,
             fmt::join(trainer_->samples(), ","), result.reduced_bytes);
}

void Run::save() {
  if (!recorder_.saves()) return;
  const HostBuffers host(buffers_, table_, config_, stream_);
  host.fetch();
  recorder_.save(trainer_->state(), host.get().state());
}

RunOutcome Run::train() {
  const std::int64_t first_step = trainer_->state().step, last_step = config_.training.train_iters;
  trace_.plan(first_step, last_step);
  RunOutcome outcome{.reason = fmt::format("{} steps done", last_step)};
  std::int64_t skipped = 0;
  auto early = early_stop(config_.training, trainer_->state(), std::nullopt);
  for (bool running = trainer_->state().step < last_step && !early; running;) {
    trace_.before_step(trainer_->state().step + 1);
    const std::int64_t start_ns = now_ns();
    const StepResult result = trainer_->step();
    StepRecord record = record_of(result, ms_since(start_ns));
    log_step(result);
    skipped += result.skipped ? 1 : 0;
    if (result.skipped)
      recorder_.notice(
          fmt::format("step {} changed nothing: gradients overflowed at loss scale {:g}",
                      record.step, result.loss_scale));

    const bool last = record.step >= last_step;
    if (valid_data_ && (last || is_due(config_.training.eval_interval))) {
      record.eval_loss = trainer_->evaluate();
      count_evaluation(*record.eval_loss, trainer_->state());
    }
    recorder_.step(record);

    early = early_stop(config_.training, trainer_->state(), result.loss);
    outcome.stopped_early = result.stop_requested && !last && !early;
    running = !last && !early && !result.stop_requested;
    if (!running || result.checkpoint_requested || is_due(config_.checkpoint.save_interval)) save();
  }
  if (early) outcome.reason = *early;
  if (trainer_->state().step == first_step)
    outcome.reason =
        "nothing to do: " +
        (early ? *early
               : fmt::format("all {} steps were done before; more with --steps N", last_step));
  if (outcome.stopped_early)
    outcome.reason = fmt::format("stopped after step {}", trainer_->state().step);
  if (skipped > 0)
    outcome.reason += fmt::format(", of which {} changed nothing: gradients overflowed", skipped);
  recorder_.finish();
  trace_.finish();
  return outcome;
}

}  // namespace

RunOutcome run_training(const Config& config, const RunOptions& options, Communicator& comm,
                        ControlChannel& channel, Requests& requests, const CudaQueue* queue) {
  if (queue) require_memory(config, *queue);
  return Run(config, options, comm, channel, requests, queue).train();
}

}  // namespace hgt
