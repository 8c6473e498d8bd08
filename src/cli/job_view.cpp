#include "job_view.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/error_texts.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/own_thread.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/config/run_checkpoints.h"
#include "hgtrain/report/step_record.h"

#include "launched_run.h"
#include "run_folder.h"
#include "shell_words.h"

namespace hgt {
namespace {

/// RUN/logs/console.log, to append to. Error(kData) if it cannot be written.
File open_log(const std::string& run_dir) {
  make_folders(run_dir + "/logs");
  return File::open(run_dir + "/logs/console.log", O_WRONLY | O_CREAT | O_APPEND);
}

/// The state of a run's branch on the disk. Damage is ignored here, because the workers report it.
struct Branch {
  std::optional<SavedStep> newest;  ///< in the run folder
  std::string origin;  ///< folder from which it began, if it has saved nothing since; else ""

  explicit Branch(const std::string& run_dir) {
    try {
      newest = newest_checkpoint(run_dir);
      if (const auto begun = read_origin(run_dir)) origin = origin_folder(run_dir, *begun);
    } catch (const Error&) {
      newest.reset();
    }
  }
  std::string newest_path() const { return newest ? newest->path : ""; }
};

}  // namespace

JobView::JobView(std::string run_dir, bool holds_run, RunFile run, ConsoleStyle style,
                 Console::Options options,
                 std::vector<std::pair<std::string, std::string>> lower_rates)
    : run_dir_(std::move(run_dir)),
      holds_run_(holds_run),
      run_(std::move(run)),
      lower_rates_(std::move(lower_rates)),
      log_(open_log(run_dir_)),
      console_(std::cerr, style, logged(options)),
      total_steps_(options.plan.total_steps) {
  log(fmt::format("{} {}\n", run_.started_at, shell_line(run_.command)));
  if (const auto saved = Branch(run_dir_).newest) {
    run_.last_checkpoint = saved->path;
    run_.start_step = saved->step;
  }
  run_.finished_steps = run_.start_step;
  if (!holds_run_) write_run_file(run_dir_, run_, console_.summary());
}

JobView::~JobView() {
  wait_for_writes();
}

/// What the console shows goes into its log, too.
Console::Options JobView::logged(Console::Options options) {
  options.copy = [this, copy = options.copy](std::string_view line) {
    add_to_log(line);
    if (copy) copy(line);
  };
  return options;
}

void JobView::event(int rank, std::string_view kind, const nlohmann::json& body) {
  report_failed_writes();
  if (kind == "spawned" && next_world_) {
    run_.workers = next_world_->workers;
    run_.layout = next_world_->layout;
    next_world_.reset();
  }
  if (kind == "spawned" && rank == 0) {
    console_.starting();
  } else if (kind == "heartbeat" && rank == 0) {
    console_.phase(body.at("phase"));
  } else if (kind == "started") {
    on_started(body);
  } else if (kind == "metrics") {
    const StepRecord record = body.get<StepRecord>();
    console_.step(record);
    run_.finished_steps = record.step;
  } else if (kind == "checkpoint") {
    run_.last_checkpoint = body.at("path");
    console_.checkpoint(body.at("step"), run_.last_checkpoint);
    write();
  } else if (kind == "notice") {
    console_.notice(body.at("text"));
  } else if (kind == "stopping") {
    const bool by_key = body.at("signal") == "INT";
    console_.notice(by_key ? "finishing this step, then saving; Ctrl-C again stops at once"
                           : "finishing this step, then saving");
  } else if (kind == "done") {
    run_.reason = body.at("reason");
  } else if (kind == "restarting") {
    run_.reason.clear();  // that of a stop that let hosts join
  } else if (kind == "goes_back") {
    go_back(body.at("checkpoint"));
  }
}

void JobView::on_started(const nlohmann::json& body) {
  const std::int64_t step = body.at("step");
  goes_back_to_.clear();
  std::optional<double> best;
  if (body.contains("best_eval_loss")) best = body["best_eval_loss"].get<double>();
  console_.started(step, body.at("from"), best);
  const bool begins = body.at("begins");
  // The run is further than the step at which this job would have started: run.json stays as it is.
  if (!begins && body.at("from") != run_.last_checkpoint) return;
  has_begun_ = has_begun_ || begins;
  if (begins) print(std::exchange(at_start_, ""));
  if (!std::exchange(started_, true)) {
    run_.start_step = step;
    run_.resumed_from = body.at("from");
  }
  run_.finished_steps = step;
  run_.last_checkpoint = Branch(run_dir_).newest_path();
  write();
}

/// Whatever happens to this job, no other continues from what it leaves.
void JobView::go_back(const std::string& checkpoint) try {
  goes_back_to_ = checkpoint;
  if (is_folder(parent_folder(checkpoint))) begin_branch(run_dir_, checkpoint);
} catch (const Error& e) {  // the next attempt begins it, too
  console_.notice(e.message());
}

void JobView::add_status(nlohmann::json& status) const {
  if (!started_ && status["state"] == "running") status["state"] = "starting";
  status["started_at"] = run_.started_at;
  status["step"] = *run_.finished_steps;
  status["total_steps"] = total_steps_;
  if (console_.summary().steps() > 0) status["loss"] = console_.summary().last().loss;
  if (const auto eta_s = console_.eta_seconds()) status["eta_s"] = *eta_s;
  if (!run_.last_checkpoint.empty()) status["last_checkpoint"] = run_.last_checkpoint;
}

void JobView::print(const std::string& text) {
  if (!text.empty()) console_.notice(text);
}

void JobView::log(const std::string& text) {
  add_to_log(printable(text));
}

void JobView::add_to_log(std::string_view text) {
  add([this, text = std::string(text)] {
    try {
      if (log_) log_->write(text);
    } catch (const Error&) {
      log_.reset();
      throw Error(ErrorKind::kData, "the console log can no longer be written, and ends here");
    }
  });
}

void JobView::finish(Verdict verdict) {
  using Outcome = Verdict::Outcome;
  const bool failed = verdict.outcome == Outcome::kFailed;
  // A run can be killed at any moment, so its newest checkpoint may be newer than the last one that
  // it reported.
  if (has_begun_) run_.last_checkpoint = Branch(run_dir_).newest_path();
  if (failed) {
    if (verdict.rank >= 0 && verdict.rank < std::ssize(run_.workers))
      verdict.place = run_.workers[static_cast<std::size_t>(verdict.rank)].place;
    // Heartbeats are a second apart; what is in the metrics has been finished by all ranks.
    verdict.step = std::max(verdict.step, *run_.finished_steps);
  }
  conclude(run_, verdict);
  write();
  if (!failed || console_.summary().steps() > 0)
    console_.finished(failed ? "the run failed" : run_.reason, run_dir_);
  if (failed || verdict.reason != run_.reason) print(verdict.render());
  // A wrong command line, or a file that could not be read at the start, must be corrected first.
  const bool mend_first = verdict.exit_code == static_cast<int>(ErrorKind::kConfig) ||
                          (verdict.exit_code == static_cast<int>(ErrorKind::kData) && !started_);
  if (verdict.outcome != Outcome::kDone && !mend_first) print(how_to_resume(verdict));
  wait_for_writes();
  report_failed_writes();
}

void JobView::cannot_start(const Error& why) {
  conclude(run_, why);
  write();
  wait_for_writes();
  report_failed_writes();
}

std::string JobView::how_to_resume(const Verdict& verdict) const {
  const Branch branch(run_dir_);
  const bool nothing_done =
      !branch.newest && branch.origin.empty() && run_.finished_steps == 0;  // the folder is free
  if (!has_begun_ || nothing_done)
    return verdict.outcome == Verdict::Outcome::kFailed && !holds_run_
               ? ""
               : fmt::format("  no step was made; start again with: {}\n",
                             shell_line(run_.command));
  const bool diverged =
      verdict.exit_code == static_cast<int>(ErrorKind::kCheck) && !verdict.hint.empty();
  const bool by_rate = diverged && verdict.hint.starts_with(kLowerRate);
  std::vector<std::string> command = resuming(run_.command);
  if (!goes_back_to_.empty()) {
    const std::string lost =
        fmt::format("  what was trained since {} is worth nothing\n", goes_back_to_);
    const bool is_gone = is_folder(parent_folder(goes_back_to_)) && !is_folder(goes_back_to_);
    if (is_gone) return lost;
    return lost + fmt::format("  go back to it: {}\n",
                              shell_line(with_key(command, "resume", goes_back_to_)));
  }
  if (by_rate)
    for (const auto& [key, rate] : lower_rates_) command = with_key(command, key, rate);
  if (by_rate && branch.newest && run_.finished_steps == run_.start_step) {
    const std::vector<std::string> saved = list_checkpoints(run_dir_);
    return fmt::format(
        "  no step could be made from step {}\n  {}\n", branch.newest->step,
        saved.size() > 1 && !is_submission(command)
            ? "go back to an earlier checkpoint, with a tenth of the learning rate: " +
                  shell_line(with_key(command, "resume", saved[1]))
            : "start a new run with a lower learning rate and another --run_dir");
  }
  return fmt::format(
      "  {}\n  {}: {}\n",
      branch.newest ? fmt::format("the last checkpoint is of step {}", branch.newest->step)
      : branch.origin.empty() ? "no checkpoint was saved, so a resumed run starts from step 0"
                              : "nothing is saved since " + branch.origin,
      by_rate    ? "resume with a tenth of the learning rate"
      : diverged ? "follow the hint above, then resume with"
                 : "resume with",
      shell_line(command));
}

void JobView::write() {
  if (holds_run_ && !started_) return;
  add([dir = run_dir_, run = run_, summary = console_.summary()] {
    write_run_file(dir, run, summary);
  });
}

void JobView::add(std::function<void()> write) {
  writes_.push_back(disk_.run(std::move(write)));
}

void JobView::wait_for_writes() {
  for (const std::future<void>& write : writes_) write.wait();
}

/// A full disk ends no training.
void JobView::report_failed_writes() {
  while (!writes_.empty() && is_ready(writes_.front())) {
    std::future<void> write = std::move(writes_.front());
    writes_.pop_front();
    try {
      write.get();
    } catch (const Error& e) {
      console_.notice(e.message());
    }
  }
}

}  // namespace hgt
