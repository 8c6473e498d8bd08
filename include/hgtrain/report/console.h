#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "hgtrain/base/clock.h"
#include "hgtrain/report/eta.h"
#include "hgtrain/report/run_summary.h"
#include "hgtrain/report/step_record.h"

namespace hgt {

/// How an output is written: with a live line, with colour, how wide.
struct ConsoleStyle {
  bool live = false;   ///< a terminal: keep one progress line at the bottom, redrawn in place
  bool color = false;  ///< dim and bold may be used
  int width = 80;      ///< columns; the progress line leaves out what does not fit

  /// The style for a file descriptor in this environment. It is live if the descriptor is a
  /// terminal and TERM is not "dumb". It has colour if it is live and NO_COLOR is unset or empty.
  static ConsoleStyle of(int fd);
};

/// Shows a training run to its user: a line for every `steps_per_print`-th step, for the last one,
/// and for one that ends a minute or more after the line before; evaluations, checkpoints, notices,
/// and averages and peaks at the end. A terminal also has a live progress line below them. Only
/// whole lines go to an output that is not live.
class Console {
 public:
  struct Options {
    Eta::Plan plan;
    std::int64_t steps_per_print = 1;     ///< 0: none but the last one
    std::int64_t (*clock_ns)() = now_ns;  ///< limits how often the progress line is drawn
    /// Called with the same lines, without colour and progress line; may be empty.
    std::function<void(std::string_view line)> copy = {};
  };
  /// `out` must outlive the console.
  Console(std::ostream& out, ConsoleStyle style, const Options& options);
  ~Console();  ///< erases the progress line
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// The workers are being started. Until their first step the progress line shows their phase.
  void starting();
  /// The phase of the workers, from their heartbeats; it is not drawn between steps.
  void phase(const std::string& phase);
  /// Training begins, after `step` finished steps. If it resumes, `checkpoint` is the folder of the
  /// checkpoint, whose lowest evaluation loss was `best_eval_loss`; "" if it starts fresh. Call it
  /// again after a restart.
  void started(std::int64_t step, const std::string& checkpoint,
               std::optional<double> best_eval_loss = {});
  void step(const StepRecord& record);
  void checkpoint(std::int64_t step, const std::string& path);
  /// Lines of text for the user, with or without a newline at the end.
  void notice(const std::string& text);
  /// The end of the run: its outcome (a sentence), averages and peaks, and the paths of its files.
  void finished(const std::string& outcome, const std::string& run_dir);

  const RunSummary& summary() const { return summary_; }
  /// The same as Eta::seconds().
  std::optional<double> eta_seconds() const { return eta_.seconds(); }

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
  Eta eta_;
  std::int64_t start_ns_ = 0;
  std::int64_t last_line_ns_ = 0;
  std::int64_t drawn_ns_ = 0;
  bool before_first_step_ = false;
  bool progress_shown_ = false;
};

}  // namespace hgt
