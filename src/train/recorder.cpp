#include "recorder.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

namespace hgt {
namespace {

/// tokenizer.path is a folder, or the tokenizer.json in one.
std::string folder_of(const std::string& path) {
  return path.ends_with(".json") ? parent_folder(path) : path;
}

}  // namespace

Recorder::Recorder(const Config& config, const RunOptions& options, const ParameterTable& table,
                   int rank, ControlChannel& channel)
    : options_(options), channel_(channel) {
  if (rank != 0) return;
  checkpoints_ = CheckpointWriter::create(config.model, table,
                                          {.run_dir = options.run_dir,
                                           .keep_last_n = config.checkpoint.keep_last_n,
                                           .async_save = config.checkpoint.async_save,
                                           .tokenizer_folder = folder_of(config.tokenizer.path),
                                           .layout = config.parallelism});
}

void Recorder::started(const TrainingState& state, const std::string& checkpoint) {
  if (!checkpoints_) return;
  metrics_.emplace(options_.run_dir, state.step);
  if (metrics_->damage()) notice(*metrics_->damage());
  started_ns_ = now_ns();
  nlohmann::json body{{"step", state.step}, {"from", checkpoint}};
  if (std::isfinite(state.best_eval_loss)) body["best_eval_loss"] = state.best_eval_loss;
  channel_.send("started", body);
}

void Recorder::step(StepRecord record) {
  if (!checkpoints_) return;
  record.elapsed_s = metrics_->elapsed_s() + ms_since(started_ns_) * 1e-3;
  if (const auto problem = metrics_->write(record)) notice(*problem);
  channel_.send("metrics", record);
  report_saves(checkpoints_->poll_error());
}

bool Recorder::prepare_save() {
  if (checkpoints_) report_saves(checkpoints_->wait());
  return checkpoints_ != nullptr;
}

void Recorder::save(const TrainingState& state, const FlatState& flat,
                    std::shared_ptr<const void> owner) {
  if (!prepare_save()) return;
  // A run that resumes from the checkpoint after a power cut has the metrics up to there.
  if (const auto problem = metrics_->sync()) notice(*problem);
  checkpoints_->save(state, flat, std::move(owner));
  saving_step_ = state.step;
}

void Recorder::finish() {
  if (!checkpoints_) return;
  if (const auto error = checkpoints_->wait()) throw Error(*error);
  report_saves(std::nullopt);
}

void Recorder::notice(const std::string& text) {
  if (checkpoints_) channel_.send("notice", {{"text", text}});
}

void Recorder::report_saves(const std::optional<Error>& error) {
  if (error) notice(error->message() + "; training goes on");
  const std::string path = fmt::format("{}/checkpoints/step_{:08}", options_.run_dir, saving_step_);
  if (saving_step_ < 0 || !path_exists(path))
    return;  // a save is done when its folder has its name
  channel_.send("checkpoint", {{"path", path}, {"step", saving_step_}});
  saving_step_ = -1;
}

}  // namespace hgt
