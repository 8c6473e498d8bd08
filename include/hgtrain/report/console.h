#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "hgtrain/base/clock.h"
#include "hgtrain/report/eta.h"
#include "hgtrain/report/run_summary.h"
#include "hgtrain/report/step_record.h"

namespace hgt {

/// What an output can show.
struct ConsoleStyle {
  bool live = false;   ///< a terminal: keep one progress line at the bottom, redrawn in place
  bool color = false;  ///< dim and bold may be used
  int width = 80;      ///< columns; the progress line leaves out what does not fit

  /// Of a file descriptor and the environment: live on a terminal unless TERM is "dumb"; colour on
  /// a live one unless NO_COLOR is set and not empty.
  static ConsoleStyle of(int fd);
};

/// A training run as its user watches it: a line a step (every `steps_per_print` steps, and the
/// last), evaluations, checkpoints and notices, on a terminal a live progress line below them, and
/// averages and peaks at the end. Only whole lines go to an output that is not live.
class Console {
 public:
  struct Options {
    Eta::Plan plan;
    std::int64_t steps_per_print = 1;     ///< 0: none but the last
    std::int64_t (*clock_ns)() = now_ns;  ///< for how often the progress line is drawn
    /// Gets the same lines, without colour and progress line; null: none. Must outlive the console.
    std::ostream* log = nullptr;
  };
  /// `out` must outlive the console.
  Console(std::ostream& out, ConsoleStyle style, const Options& options);
  ~Console();  ///< takes the progress line away
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// The workers are being started. Until their first step the progress line has what they do.
  void starting();
  /// What they do, as heartbeats name it; nothing is drawn between steps.
  void phase(const std::string& phase);
  /// Training goes on after `step` finished steps, from `checkpoint` ("" where it starts fresh),
  /// whose lowest evaluation loss was `best_eval_loss`. Call it again after a restart.
  void started(std::int64_t step, const std::string& checkpoint,
               std::optional<double> best_eval_loss = {});
  void step(const StepRecord& record);
  void checkpoint(std::int64_t step, const std::string& path);
  /// Lines of text for the user, newline at the end or not.
  void notice(const std::string& text);
  /// The end of the run: what became of it (a sentence), averages and peaks, where things lie.
  void finished(const std::string& outcome, const std::string& run_dir);

  const RunSummary& summary() const { return summary_; }

 private:
  /// A whole line; a label before it is dimmed on a terminal.
  void line(const std::string& text, const std::string& label = "");
  void draw_progress(const StepRecord& record);
  void draw(const std::string& text);
  void clear_progress();
  std::string dim(const std::string& text) const;

  std::ostream& out_;
  const ConsoleStyle style_;
  const Options options_;
  RunSummary summary_;
  std::ostream* log_;
  Eta eta_;
  std::int64_t start_ns_ = 0;
  std::int64_t drawn_ns_ = 0;
  std::optional<double> best_before_;  // evaluation loss of the resumed part
  bool before_first_step_ = false;
  bool progress_shown_ = false;
};

}  // namespace hgt
