#include "hgtrain/report/console.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/terminal.h"
#include "hgtrain/report/human.h"

namespace hgt {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr std::int64_t kRedrawNs = 100'000'000;
constexpr std::int64_t kLongestSilenceNs = 60'000'000'000;
constexpr double kDiverged = 1;  ///< a loss that rose by this, in nats, is not noise

/// "  12/2000": as wide at the first step as at the last.
std::string step_of(std::int64_t step, std::int64_t total) {
  const std::string all = std::to_string(total);
  return fmt::format("{:>{}}/{}", step, all.size(), all);
}

/// Four digits: "9.501", "47.40"; "14390" and "1.56e+14" for larger ones.
std::string perplexity(double loss) {
  const double value = std::exp(loss);
  return value < 999.95 ? fmt::format("{:#.4g}", value) : human_number(value, 0);
}

/// A piece of a line. If the line is too long, the pieces of the lowest worth are dropped first.
struct Part {
  std::string text;
  int worth;
};

/// The numbers of a step.
std::vector<Part> numbers(const StepRecord& r, std::optional<double> eta_seconds) {
  std::vector<Part> parts{{"loss " + human_number(r.loss, 4), 9},
                          {"grad_norm " + human_number(r.grad_norm, 2), 5},
                          {fmt::format("lr {:.2e}", r.lr), 4},
                          {human_count(r.tokens_per_sec) + " tok/s", 7}};
  if (r.mfu) parts.push_back({fmt::format("mfu {:.1f}%", *r.mfu * 100), 3});
  parts.push_back({"mem " + human_bytes(r.mem_bytes), 2});
  if (eta_seconds) parts.push_back({"eta " + human_duration(*eta_seconds), 8});
  return parts;
}

std::string joined(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) text += (text.empty() ? "" : "  ") + part.text;
  return text;
}

/// The parts with the highest worth that fit into `columns`; one always stays.
std::string fitting(std::vector<Part> parts, std::size_t columns) {
  while (parts.size() > 1 && joined(parts).size() > columns)
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.worth < b.worth; }));
  return joined(parts);
}

std::string bar(double done, std::size_t cells) {
  const auto full = static_cast<std::size_t>(done * static_cast<double>(cells));
  return '[' + std::string(full, '=') + std::string(cells - full, ' ') + ']';
}

}  // namespace

ConsoleStyle ConsoleStyle::of(int fd) {
  ConsoleStyle style;
  const char* term = std::getenv("TERM");
  const char* no_color = std::getenv("NO_COLOR");
  style.live = ::isatty(fd) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0;
  style.color = style.live && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (style.live && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = size.ws_col;
  return style;
}

Console::Console(std::ostream& out, ConsoleStyle style, const Options& options)
    : out_(out),
      style_(style),
      options_(options),
      eta_(options.plan),
      start_ns_(options.clock_ns()),
      last_line_ns_(start_ns_) {}

Console::~Console() {
  clear_progress();
}

void Console::starting() {
  start_ns_ = options_.clock_ns();
  before_first_step_ = true;
  phase("starting");
}

void Console::phase(const std::string& phase) {
  if (!before_first_step_) return;
  draw(fmt::format("before the first step: {}  {}", printable(phase),
                   human_duration(static_cast<double>(options_.clock_ns() - start_ns_) * 1e-9)));
}

void Console::started(std::int64_t step, const std::string& checkpoint,
                      std::optional<double> best_eval_loss) {
  eta_.restart();
  summary_.resume(best_eval_loss);
  if (!checkpoint.empty())
    line(fmt::format("resuming from step {}: {}", step, printable(checkpoint)));
}

void Console::step(const StepRecord& record) {
  before_first_step_ = false;
  summary_.add(record);
  eta_.add(record);
  const std::string where = step_of(record.step, options_.plan.total_steps);
  const bool is_due =
      options_.steps_per_print > 0 && (record.step % options_.steps_per_print == 0 ||
                                       options_.clock_ns() - last_line_ns_ >= kLongestSilenceNs);
  if (is_due || record.step == options_.plan.total_steps)
    line(where + "  " + joined(numbers(record, eta_.seconds())), "step");
  if (record.eval_loss) {
    const bool best = summary_.best_eval_step() == record.step;
    line(where + fmt::format("  loss {}  perplexity {}{}", human_number(*record.eval_loss, 4),
                             perplexity(*record.eval_loss), best ? "  (best so far)" : ""),
         "eval");
  }
  draw_progress(record);
}

void Console::checkpoint(std::int64_t step, const std::string& path) {
  line(step_of(step, options_.plan.total_steps) + "  " + printable(path), "save");
}

void Console::notice(const std::string& text) {
  line(printable(text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0))));
}

void Console::finished(const std::string& outcome, const std::string& run_dir) {
  line(printable(outcome));
  if (summary_.steps() > 0) {
    const RunSummary& s = summary_;
    std::string loss = human_number(s.first().loss, 4) + " to " + human_number(s.last().loss, 4);
    if (s.eval_loss()) {
      loss += ", evaluation " + human_number(*s.eval_loss(), 4);
      if (s.best_eval_loss() && s.best_eval_loss() != s.eval_loss())
        loss += fmt::format(" (best {:.4f} {})", *s.best_eval_loss(),
                            s.best_eval_step() > 0 ? fmt::format("at step {}", s.best_eval_step())
                                                   : "before it was resumed");
    }
    line("  loss     " + loss);
    if (s.last().loss > s.first().loss + kDiverged)
      line("  note     the loss rose: the learning rate may be too high");
    line(
        fmt::format("  average  {} tok/s, {:.1f} ms a step (communication {:.1f} ms, waiting for "
                    "data {:.1f} ms){}",
                    human_count(s.mean_tokens_per_sec()), s.mean_step_ms(), s.mean_comm_ms(),
                    s.mean_data_wait_ms(),
                    s.mean_mfu() ? fmt::format(", mfu {:.1f}%", *s.mean_mfu() * 100) : ""));
    line(fmt::format("  peak     {} tok/s, memory {}", human_count(s.peak_tokens_per_sec()),
                     human_bytes(s.peak_mem_bytes())));
  }
  if (!run_dir.empty()) line("  run      " + printable(run_dir));
}

void Console::line(const std::string& text, const std::string& label) {
  last_line_ns_ = options_.clock_ns();
  clear_progress();
  const std::string before = label.empty() ? "" : label + ' ';
  out_ << dim(before) << text << '\n' << std::flush;
  if (options_.copy) options_.copy(before + text + '\n');
}

void Console::draw_progress(const StepRecord& record) {
  if (options_.plan.total_steps <= 0) return;
  const std::int64_t now = options_.clock_ns();
  if (progress_shown_ && now - drawn_ns_ < kRedrawNs) return;
  const double done = std::min(
      1.0, static_cast<double>(record.step) / static_cast<double>(options_.plan.total_steps));
  std::vector<Part> parts{{"step " + step_of(record.step, options_.plan.total_steps), 10},
                          {fmt::format("{:.0f}%", std::floor(done * 100)), 6},
                          {bar(done, 20), 1}};
  for (Part& part : numbers(record, eta_.seconds())) parts.push_back(std::move(part));
  draw(fitting(std::move(parts), static_cast<std::size_t>(std::max(1, style_.width - 1))));
}

void Console::draw(const std::string& text) {
  if (!style_.live) return;
  const auto columns = static_cast<std::size_t>(std::max(1, style_.width - 1));
  out_ << kClearLine << dim(text.substr(0, columns)) << std::flush;
  progress_shown_ = true;
  drawn_ns_ = options_.clock_ns();
}

void Console::clear_progress() {
  if (std::exchange(progress_shown_, false)) out_ << kClearLine << std::flush;
}

std::string Console::dim(const std::string& text) const {
  return style_.color && !text.empty() ? "\x1b[2m" + text + "\x1b[0m" : text;
}

}  // namespace hgt
