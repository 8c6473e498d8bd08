#include "job_view.h"

#include <iostream>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/report/step_record.h"

namespace hgt {

JobView::JobView(std::string run_dir, RunFile run, const Console::Options& options)
    : run_dir_(std::move(run_dir)),
      run_(std::move(run)),
      console_(std::cerr, ConsoleStyle::of(STDERR_FILENO), options) {
  write_run_file(run_dir_, run_, console_.summary());
}

void JobView::event(int, std::string_view kind, const nlohmann::json& body) {
  if (kind == "started") {
    const std::int64_t step = body.at("step");
    console_.started(step, body.at("from"));
    if (!std::exchange(started_, true)) {
      run_.start_step = step;
      run_.resumed_from = body.at("from");
    }
    run_.finished_steps = step;
    write();
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
  } else if (kind == "done") {
    run_.reason = body.at("reason");
  }
}

void JobView::finish(const Verdict& verdict) {
  using Outcome = Verdict::Outcome;
  run_.verdict = verdict.outcome == Outcome::kDone      ? "done"
                 : verdict.outcome == Outcome::kStopped ? "stopped"
                                                        : "failed";
  run_.exit_code = verdict.exit_code;
  run_.restarts = verdict.restarts;
  run_.ended_at = utc_now();
  if (verdict.outcome == Outcome::kFailed) {
    run_.reason = fmt::format("rank {} {}", verdict.rank, verdict.reason);
    run_.failure =
        RunFile::Failure{.rank = verdict.rank,
                         .message = verdict.message.empty() ? verdict.reason : verdict.message,
                         .hint = verdict.hint,
                         .context = verdict.context,
                         .log = verdict.log_path};
  }
  write();
  const bool failed = verdict.outcome == Outcome::kFailed;
  if (!failed || console_.summary().steps() > 0)
    console_.finished(failed ? "the run failed" : run_.reason, run_dir_);
  std::cerr << verdict.render();
}

void JobView::write() {
  try {
    write_run_file(run_dir_, run_, console_.summary());
  } catch (const Error& e) {  // a full disk ends no training
    console_.notice(e.message());
  }
}

}  // namespace hgt
