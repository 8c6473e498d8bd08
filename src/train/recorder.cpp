#include "recorder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/log.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/hf_folder.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {
namespace {

/// For how long the copy of the last checkpoint may make no progress.
constexpr std::chrono::milliseconds kCopyPatience{60'000};
constexpr std::size_t kMaxNames = 5;

/// Whether the run's branch began with a checkpoint that is none of the run's own steps: one of
/// another run, or one that is superseded.
bool is_from_elsewhere(const std::string& run_dir) {
  const std::string origin = read_origin(run_dir).value_or(BranchOrigin{}).checkpoint;
  return !origin.empty() && step_of(origin) < 0;
}

}  // namespace

Recorder::Recorder(const Config& config, const RunOptions& options, const ParameterTable& table,
                   const Groups& savers, ControlChannel& channel)
    : config_(config),
      options_(options),
      table_(table),
      savers_(savers),
      records_(savers.world->rank() == 0),
      channel_(channel) {}

void Recorder::begin(const TrainingState& state, const std::string& checkpoint,
                     const std::function<bool()>& may_go_back) {
  CheckpointWriter::Options options;
  options.comm = savers_.world;
  options.tensor = savers_.tensor;
  options.run_dir = options_.run_dir;
  options.origin = checkpoint;
  options.best_eval_step = state.best_eval_step;
  options.keep_last_n = config_.checkpoint.keep_last_n;
  options.keep_best = config_.checkpoint.keep_best;
  options.async_save = config_.checkpoint.async_save;
  options.tokenizer_folder = tokenizer_folder(config_.tokenizer.path);
  options.model_folder = config_.model.init;
  options.layout = config_.parallelism;
  const auto is_needed = [this, begun = state.step](std::int64_t step) {
    return step == begun || std::ranges::count(options_.needed_steps, step) > 0;
  };
  options.is_in_use = [this, is_needed, may_go_back](std::int64_t step) {
    return (copier_ && copier_->is_copying(step)) ||
           (may_go_back && may_go_back() && is_needed(step));
  };
  options.on_saved = [this](const std::string& path, std::int64_t step) {
    channel_.send("checkpoint", {{"path", path}, {"step", step}});
    if (copier_) copier_->saved();
  };
  if (records_) RunCopy::begin_run_in(options_.run_dir);
  if (const std::string& to = config_.checkpoint.copy_to; records_ && !to.empty()) {
    if (std::filesystem::weakly_canonical(to) ==
        std::filesystem::weakly_canonical(options_.run_dir))
      notice("checkpoint.copy_to is the run folder itself, so nothing is copied");
    else
      copier_.emplace(open_copy(to), [this](const std::string& text) { notice(text); });
  }
  const auto open_metrics = [&](bool leaves_branch) {
    metrics_.emplace(options_.run_dir, state.step,
                     OtherRecords{.until_resumed_step = is_from_elsewhere(options_.run_dir),
                                  .after_resumed_step = leaves_branch});
  };
  // Metrics are kept before checkpoints are renamed: after a crash in between, the checkpoints
  // still show that the branch was left.
  options.on_leaving = [&] { open_metrics(true); };
  metrics_.reset();
  checkpoints_ = CheckpointWriter::create(config_.model, table_, options);
  if (!records_) return;
  if (!metrics_) open_metrics(false);
  report_superseded();
  if (metrics_->kept_aside()) notice(*metrics_->kept_aside());
  if (metrics_->missing()) notice(*metrics_->missing());
  started_ns_ = now_ns();
}

/// A job that restarts does not end because of its copy: each save tries again to open it.
RunCopy Recorder::open_copy(const std::string& folder) const {
  RunCopy copy(options_.run_dir, folder);
  if (!options_.is_restart) copy.open();
  return copy;
}

void Recorder::report_superseded() {
  if (!checkpoints_->left().empty())
    notice(fmt::format("{} checkpoints are renamed to {}",
                       is_from_elsewhere(options_.run_dir)
                           ? "the run continues from a checkpoint of another branch: its own other"
                           : "the run goes back: its later",
                       listed(checkpoints_->left(), kMaxNames)));
  const std::vector<std::string> all = checkpoints_->superseded();
  if (config_.checkpoint.keep_last_n > 0 && !all.empty())
    notice(fmt::format("the next save removes {}; to keep them: --checkpoint.keep_last_n 0",
                       listed(all, kMaxNames)));
}

void Recorder::started(const TrainingState& state, const std::string& checkpoint, bool begins) {
  if (!records_) return;
  nlohmann::json body{{"step", state.step}, {"from", checkpoint}, {"begins", begins}};
  if (std::isfinite(state.best_eval_loss)) body["best_eval_loss"] = state.best_eval_loss;
  channel_.send("started", body);
}

void Recorder::step(StepRecord record) {
  if (!records_) return;
  record.elapsed_s = metrics_->elapsed_s() + ms_since(started_ns_) * 1e-3;
  const std::string problem = metrics_->write(record).value_or("");
  if (problem != std::exchange(metrics_problem_, problem) && !problem.empty()) notice(problem);
  channel_.send("metrics", record);
  report(checkpoints_->poll_error());
}

void Recorder::prepare_save() {
  report(checkpoints_->wait());
}

void Recorder::save(const TrainingState& state, const FlatState& flat,
                    std::shared_ptr<const void> owner, CheckpointWriter::Reason reason) {
  prepare_save();
  log_debug("saving step {}", state.step);
  // A run that resumes from this checkpoint after a power cut then has the metrics up to it.
  if (records_)
    if (const auto problem = metrics_->sync()) notice(*problem);
  checkpoints_->save(state, flat, std::move(owner), reason);
}

void Recorder::finish(bool is_stopped) {
  if (!checkpoints_) return;
  if (records_)
    if (const auto problem = metrics_->finish()) notice(*problem);
  if (const auto error = checkpoints_->wait(); error && records_) throw Error(*error);
  if (!copier_) return;
  channel_.progress().phase = "copying";
  const std::chrono::milliseconds timeout(config_.distributed.timeout_ms());
  const std::string problem =
      copier_->finish(std::min(kCopyPatience, timeout / 2), channel_.progress().work);
  if (problem.empty()) return;
  const std::string text =
      fmt::format("the run is saved in {}, but its copy in {} is not complete: {}",
                  options_.run_dir, config_.checkpoint.copy_to, problem);
  if (is_stopped) return notice(text);
  throw Error(ErrorKind::kData, text, "copy the run folder by hand");
}

void Recorder::notice(const std::string& text) {
  if (records_) channel_.send("notice", {{"text", text}});
}

void Recorder::report(const std::optional<Error>& error) {
  if (!error || !records_) return;
  if (error->kind() == ErrorKind::kCheck || error->kind() == ErrorKind::kPeer) throw Error(*error);
  notice(error->message() + "; training continues");
}

}  // namespace hgt
