#include "hgtrain/train/run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/arch/flops.h"
#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/error_texts.h"
#include "hgtrain/base/exception.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/text.h"
#include "hgtrain/base/trace.h"
#include "hgtrain/base/xxh3.h"
#include "hgtrain/config/config.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/ops/gemm.h"
#include "hgtrain/optim/loss_scaler.h"
#include "hgtrain/report/human.h"
#include "hgtrain/train/machine_rates.h"
#include "hgtrain/train/memory_fit.h"
#include "hgtrain/train/model_options.h"
#include "hgtrain/train/process_memory.h"

#include "data_comparison.h"
#include "early_stop.h"
#include "recorder.h"
#include "start.h"
#include "trace_window.h"

namespace hgt {
namespace {

std::unique_ptr<Dataset> open_data(const Config& config, Dataset::Split split) {
  const Span span = Span::rare("open data");
  return Dataset::open(config.data, config.training.seq_length, split, config.model.vocab_size);
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

/// All that a rank needs to train.
class Run {
 public:
  Run(const Config& config, const RunOptions& options, const Groups& groups,
      ControlChannel& channel, Requests& requests, const CudaQueue* queue, const Groups* savers)
      : config_(config),
        options_(options),
        groups_(groups),
        comm_(*groups.world),
        channel_(channel),
        requests_(requests),
        queue_(queue),
        trace_(options, comm_.rank(), layout_of(config).position_text(comm_.rank())),
        pool_(static_cast<int>(config.hardware.threads), config.training.deterministic),
        stream_(queue ? Stream(*queue) : Stream(pool_)),
        table_(rank_table(config)),
        plan_(plan_rank(config, table_, comm_.rank(), comm_.size())),
        recorder_(config, options_, table_, savers ? *savers : groups, channel) {}
  RunOutcome train();
  /// What to report in place of an exception that train() threw.
  Error explain(Error error) const;

 private:
  void measure_rates();
  void make_model();
  void require_same_data();
  [[noreturn]] void refuse_data(const std::string& why);
  void start();
  void report_start(const Start& start);
  void take_steps();
  void finish_steps(std::int64_t left, bool evaluates);
  StepRecord finish_step();
  StepRecord record_of(const StepResult& result, double step_ms);
  void evaluate(StepRecord& record);
  static void require_finite_evaluation(const StepRecord& record);
  void save(bool due);
  void require_an_update() const;
  RunOutcome outcome() const;

  bool is_due(std::int64_t interval) const;
  bool at_last_step() const { return trainer_->state().step >= config_.training.train_iters; }
  /// Whether the run was stopped on request, before its end.
  bool is_stopped() const { return stop_requested_ && !at_last_step() && !early_stop_; }
  bool is_over() const { return at_last_step() || early_stop_ || stop_requested_; }

  const Config& config_;
  const RunOptions options_;
  const Groups groups_;
  Communicator& comm_;  ///< the world
  ControlChannel& channel_;
  Requests& requests_;
  const CudaQueue* const queue_;  ///< null on the CPU
  TraceWindow trace_;
  ThreadPool pool_;
  const Stream stream_;
  const ParameterTable table_;
  const RankPlan plan_;
  std::unique_ptr<Dataset> train_data_;
  std::unique_ptr<Dataset> valid_data_;  ///< null if evaluations are off
  std::optional<DataComparison> comparison_;
  Recorder recorder_;  ///< asks comparison_
  std::optional<PeakRate> peak_rate_;
  std::optional<FlatBuffers> buffers_;
  std::optional<UnitSlots> slots_;
  std::unique_ptr<Model> model_;
  std::optional<Trainer> trainer_;
  std::int64_t first_step_ = 0;  ///< the step that the run starts from
  std::int64_t peak_bytes_ = 0;
  RankUsage usage_;  ///< this rank's, in the last finished step

  // These describe the finished steps.
  std::int64_t finished_ns_ = 0;  ///< when the last one was
  std::int64_t skipped_ = 0;
  bool stop_requested_ = false, checkpoint_requested_ = false;
  std::optional<std::string> early_stop_;  ///< why the run ends before its last step
};

RunOutcome Run::train() {
  measure_rates();
  if (queue_ && comm_.size() > 1 && config_.times_products())
    set_product_timing(*queue_, ProductTiming::kEnded);  // collectives share the GPU from now on
  make_model();
  start();
  take_steps();
  recorder_.finish(is_stopped());
  trace_.finish();
  return outcome();
}

Error Run::explain(Error error) const {
  error = cause_of(error, comm_);
  if (queue_) add_smaller_batch(error, config_, *queue_);
  return error;
}

/// Runs before everything that takes memory, so that there is memory for the measurement.
void Run::measure_rates() {
  const DType dtype = config_.precision.compute_dtype();
  peak_rate_ = PeakRate::measure(stream_, dtype, comm_);
  if (options_.record_steps > 0) trace_.measure_ceilings(stream_, dtype);
  restart_peak_memory();  // what it took does not belong to training
  if (stream_.device().is_cpu()) choose_cpu_products(cpu_name(), options_.run_dir);
}

void Run::make_model() {
  train_data_ = open_data(config_, Dataset::Split::kTrain);
  if (config_.training.eval_interval > 0) valid_data_ = open_data(config_, Dataset::Split::kValid);
  buffers_.emplace(config_, plan_, stream_.device());
  slots_.emplace(table_, plan_, *buffers_);
  model_ = Model::create(config_.model, table_, slots_->block_weights(), slots_->block_gradients(),
                         model_options(config_, plan_.shape, groups_), stream_);
}

/// Ranks on other machines may have other files at the same paths.
void Run::require_same_data() {
  const std::array mine{train_data_->fingerprint(), valid_data_ ? valid_data_->fingerprint() : 0};
  std::array first = mine;
  comm_.broadcast(std::as_writable_bytes(std::span(first)), 0);
  if (first != mine)
    refuse_data(fmt::format("the {} data of rank {} on {} are not the same as rank 0's",
                            first[0] == mine[0] ? "validation" : "training", comm_.rank(),
                            host_name()));
  if (options_.num_hosts > 1 && options_.is_first_of_host)
    comparison_.emplace(channel_, options_.host, options_.num_hosts,
                        [this](const std::stop_token& stop) {
                          const std::array hashes{train_data_->whole_hash(stop),
                                                  valid_data_ ? valid_data_->whole_hash(stop) : 0};
                          return xxh3(std::as_bytes(std::span(hashes)));
                        });
}

/// The launcher may leave this host out, and go back to before it joined.
void Run::refuse_data(const std::string& why) {
  constexpr std::size_t kMaxPaths = 3;
  channel_.send("data_differ", nlohmann::json::object());
  std::vector<std::string> paths;
  for (const auto* sources : {&config_.data.train, &config_.data.valid})
    for (const DataSource& source : *sources) paths.push_back(source.path);
  throw Error(ErrorKind::kData, why,
              "every host needs the same files at " + listed(paths, kMaxPaths));
}

/// Starts from a checkpoint or from the first step, together with the other ranks.
void Run::start() {
  channel_.progress().phase = "loading";
  const HostBuffers host(*buffers_, config_, plan_, stream_);
  require_same_data();
  const DataFingerprint data{train_data_->fingerprint(), train_data_->old_fingerprint()};
  const Start from =
      prepare_start(config_, options_, table_, plan_, host.get(), data, pool_, groups_);
  host.store(from.state.optimizer_steps > 0);
  return_freed_memory();  // the buffers of the checkpoint's files; the thread that saves takes
                          // others
  buffers_->round_weights(buffers_->is_offloaded() ? Stream(pool_) : stream_);
  trainer_.emplace(
      Trainer::Parts{config_, table_, plan_, *buffers_, *slots_, *model_, groups_, stream_,
                     *train_data_, valid_data_.get(), channel_.progress(), requests_, &pool_},
      from.state);
  first_step_ = channel_.progress().step = channel_.progress().begun = from.state.step;
  trace_.plan(first_step_, config_.training.train_iters);
  early_stop_ = early_stop(config_.training, from.state, std::nullopt);
  report_start(from);
  comm_.barrier();  // no rank can fail to start any more
  const auto may_go_back = [this] { return comparison_ && !comparison_->are_all_same(); };
  if (!is_over()) recorder_.begin(from.state, from.checkpoint, may_go_back);
  recorder_.started(from.state, from.checkpoint, !is_over());
}

void Run::report_start(const Start& start) {
  for (const std::string& damage : start.refused)
    recorder_.notice(damage + "; an older checkpoint is used");
  if (!start.notice.empty()) recorder_.notice(start.notice);
  if (const DType dtype = buffers_->compute_dtype;
      stream_.device().is_cpu() && !cpu_multiplies(dtype))
    recorder_.notice(fmt::format(
        "this CPU multiplies {0} no faster than fp32: {0} saves memory here, but no time",
        name_of(dtype)));
  if (options_.resume == "auto" && start.checkpoint.empty())
    recorder_.notice("no checkpoint in " + options_.run_dir + ": starting from step 0");
  log_info("{} step {}", first_step_ > 0 ? "resuming from" : "starting from", first_step_);
}

void Run::take_steps() {
  const TrainingState& state = trainer_->state();
  while (!is_over()) {
    trace_.before_step(state.step + 1);
    trainer_->queue_step(usage_);
    const bool evaluates =
        valid_data_ && (at_last_step() || is_due(config_.training.eval_interval));
    const bool saves = at_last_step() || is_due(config_.checkpoint.save_interval);
    finish_steps(evaluates || saves ? 0 : trainer_->steps_ahead(), evaluates);
    save(saves);
  }
}

bool Run::is_due(std::int64_t interval) const {
  return interval > 0 && trainer_->state().step % interval == 0;
}

StepRecord Run::record_of(const StepResult& result, double step_ms) {
  const double seconds = step_ms * 1e-3;
  const ProcessMemory memory = memory_in_use(stream_);
  peak_bytes_ = std::max(peak_bytes_, memory.peak_bytes);
  usage_ = {static_cast<double>(memory.bytes), static_cast<double>(peak_bytes_), result.comm_ms,
            static_cast<double>(result.sent_bytes)};
  const bool first = result.step == first_step_ + 1;  // the other ranks' usage is not known yet
  const RankUsage largest = first ? usage_ : result.usage;
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
  record.mem_bytes = static_cast<std::int64_t>(largest.mem_bytes);
  record.mem_peak_bytes = static_cast<std::int64_t>(largest.mem_peak_bytes);
  record.comm_ms =
      std::min(largest.comm_ms, step_ms);  // the other ranks' values are from an earlier step
  record.sent_bytes = largest.sent_bytes;
  record.data_wait_ms = result.data_wait_ms;
  record.mfu = peak_rate_->share(
      train_flops(config_.model, config_.training.seq_length, record.tokens) / seconds);
  return record;
}

/// Finishes steps until `left` are queued.
void Run::finish_steps(std::int64_t left, bool evaluates) {
  while (trainer_->queued_steps() > left) {
    StepRecord record = finish_step();
    if (evaluates && trainer_->queued_steps() == 0) evaluate(record);
    recorder_.step(record);
    require_finite_evaluation(record);
    if (!early_stop_) early_stop_ = early_stop(config_.training, trainer_->state(), record.loss);
  }
}

StepRecord Run::finish_step() {
  if (comparison_ && comparison_->differs())
    refuse_data(fmt::format("the data on {} are not the same as on rank 0's host", host_name()));
  const StepResult& result = trainer_->finish_step();
  const double step_ms =
      ms_since(std::max(std::exchange(finished_ns_, now_ns()), result.queued_ns));
  log_info("step {} samples [{}] reduced_bytes {} sent_bytes {}", result.step,
           fmt::join(result.samples, ","), result.reduced_bytes, result.sent_bytes);
  stop_requested_ |= result.stop_requested;
  checkpoint_requested_ |= result.checkpoint_requested;
  if (result.skipped) {
    ++skipped_;
    recorder_.notice(fmt::format("step {} skipped: gradient overflow at loss scale {}", result.step,
                                 human_number(result.loss_scale, 0)));
  }
  return record_of(result, step_ms);
}

void Run::evaluate(StepRecord& record) {
  record.eval_loss = trainer_->evaluate();
  count_evaluation(*record.eval_loss, trainer_->state());
}

/// Throws if the validation loss is not finite: the step has made the weights useless, and must not
/// be saved.
void Run::require_finite_evaluation(const StepRecord& record) {
  if (!record.eval_loss || std::isfinite(*record.eval_loss)) return;
  throw Error(ErrorKind::kCheck,
              fmt::format("step {}: the validation loss is {}", record.step,
                          human_number(*record.eval_loss, 4)),
              fmt::format("{}, or lengthen the warmup; this step is not saved", kLowerRate));
}

/// Saves the last queued step if a save is due or requested, if the run is over, or if the step is
/// the best so far.
void Run::save(bool due) {
  const TrainingState& state = trainer_->state();
  const bool is_best = config_.checkpoint.keep_best && state.best_eval_step == state.step;
  if (!due && !is_best && !checkpoint_requested_ && !is_over()) return;
  finish_steps(0, false);
  due |= std::exchange(checkpoint_requested_, false) || is_over();
  if (is_over()) require_an_update();
  channel_.progress().phase = "saving";
  recorder_.prepare_save();
  trainer_->wait_for_collectives();
  FlatState flat = buffers_->state();
  std::shared_ptr<std::vector<Buffer>> host;
  if (!buffers_->home.is_cpu()) {
    host = std::make_shared<std::vector<Buffer>>();
    flat = copy_slices(flat, *host, [&](void* to, const void* from, std::size_t bytes) {
      stream_.copy(to, from, bytes);
    });
    stream_.synchronize();
  }
  recorder_.save(state, flat, host,
                 due ? CheckpointWriter::Reason::kDue : CheckpointWriter::Reason::kBest);
}

/// Throws if every step was skipped, because then nothing was trained. A short resumed job with a
/// dynamic loss scale may still be searching for the scale.
void Run::require_an_update() const {
  const std::int64_t steps = trainer_->state().step - first_step_;
  const bool may_find_scale =
      config_.precision.loss_scale == 0 && trainer_->state().optimizer_steps > 0;
  if (skipped_ == 0 || skipped_ < steps || may_find_scale || is_stopped()) return;
  throw Error(ErrorKind::kCheck,
              fmt::format("no weight was changed in {}: every step's gradients overflowed fp16",
                          human_plural(steps, "step")),
              LossScaler(config_.precision).overflow_hint());
}

RunOutcome Run::outcome() const {
  const std::int64_t step = trainer_->state().step, last_step = config_.training.train_iters;
  const std::string steps = human_plural(last_step, "step");
  std::string reason = early_stop_    ? *early_stop_
                       : is_stopped() ? fmt::format("stopped after step {}", step)
                                      : steps + " done";
  if (step == first_step_)
    reason =
        "nothing to do: " +
        (early_stop_ ? *early_stop_
                     : fmt::format("{} of {} done before; more with --steps N", last_step, steps));
  if (skipped_ > 0) reason += fmt::format(", {} of them skipped: gradient overflow", skipped_);
  return {.stopped_early = is_stopped(), .reason = reason};
}

TrainingRun::TrainingRun(const Config& config, const RunOptions& options, const Groups& groups,
                         ControlChannel& channel, Requests& requests, const CudaQueue* queue,
                         const Groups* savers)
    : run_(std::make_unique<Run>(config, options, groups, channel, requests, queue, savers)) {}

TrainingRun::~TrainingRun() = default;

RunOutcome TrainingRun::train() {
  try {
    return run_->train();
  } catch (const std::exception& error) {
    throw run_->explain(error_from(error));
  }
}

}  // namespace hgt
