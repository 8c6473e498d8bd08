#pragma once

#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/task_pool.h"
#include "hgtrain/launch/verdict.h"
#include "hgtrain/report/console.h"
#include "hgtrain/report/run_file.h"

namespace hgt {

/// A training job as its user sees it: the workers' events on the console (stderr), and run.json.
class JobView {
 public:
  /// `run` says what is known before the start. run.json is written at once: Error(kData) if it
  /// cannot be (later failures are a line on the console). But if the folder `holds_run`, that
  /// run's run.json stays unchanged until the workers have started. `lower_rates`: keys of
  /// learning rates with lower values, to resume a run that diverged. `style` is that of stderr.
  JobView(std::string run_dir, bool holds_run, RunFile run, ConsoleStyle style,
          Console::Options options, std::vector<std::pair<std::string, std::string>> lower_rates);
  /// Waits until all is written.
  ~JobView();

  /// print() shows lines to the user, on the console and in its log; log() only logs lines that the
  /// user has seen before.
  void print(const std::string& text);
  void log(const std::string& text);
  /// Lines to print when the job makes its first step; if it makes none they are not printed.
  void print_at_start(std::string text) { at_start_ = std::move(text); }
  /// The workers and the layout of the next attempt.
  void set_world(const RunFile& run) { next_world_ = run; }
  void event(int rank, std::string_view kind, const nlohmann::json& body);
  /// For `hgtrain status`: how far the run is.
  void add_status(nlohmann::json& status) const;
  /// Writes the final run.json, and prints how the job went and how to resume it.
  void finish(Verdict verdict);
  /// Writes the final run.json; the caller prints the error.
  void cannot_start(const Error& why);
  /// Whether the run folder is on the branch that this job began.
  bool has_begun() const { return has_begun_; }
  /// The checkpoint from which the next attempt has to resume, "" = the newest.
  const std::string& goes_back_to() const { return goes_back_to_; }

 private:
  void on_started(const nlohmann::json& body);
  void go_back(const std::string& checkpoint);
  std::string how_to_resume(const Verdict& verdict) const;
  void add_to_log(std::string_view text);
  void write();
  void add(std::function<void()> write);
  void wait_for_writes();
  void report_failed_writes();
  Console::Options logged(Console::Options options);

  const std::string run_dir_;
  const bool holds_run_;
  RunFile run_;
  std::optional<RunFile> next_world_;  ///< of an attempt of which no rank runs yet
  const std::vector<std::pair<std::string, std::string>> lower_rates_;
  std::optional<File> log_;  ///< RUN/logs/console.log, used by disk_ only; none: writing failed
  Console console_;
  std::string at_start_;
  std::string goes_back_to_;
  const std::int64_t total_steps_;
  bool started_ = false;
  bool has_begun_ = false;
  std::deque<std::future<void>> writes_;  ///< that were not seen to end
  /// A disk may stand still, and heartbeats must not wait for it.
  TaskPool disk_{1};
};

}  // namespace hgt
