#include <atomic>
#include <csignal>
#include <cstdio>
#include <optional>
#include <span>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/data/prepare.h"
#include "hgtrain/report/console.h"
#include "hgtrain/report/human.h"

#include "commands.h"
#include "options.h"

namespace hgt {
namespace {

std::atomic<int> stop_signal{0};
std::atomic<std::int64_t> stopped_ns{0};

/// Remembers SIGINT and SIGTERM while it lives. One that comes at least a second after the first
/// ends the process, as usual. (`timeout` and some shells send the first one twice.)
class SignalWatch {
 public:
  SignalWatch() {
    struct sigaction action {};
    action.sa_handler = [](int number) {
      const std::int64_t now = now_ns();
      if (stop_signal == 0)
        stopped_ns = now;
      else if (now - stopped_ns >= 1'000'000'000)
        _exit(128 + number);
      stop_signal = number;
    };
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalWatch() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

/// One line on a terminal's stderr, redrawn five times a second; nothing elsewhere.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (drawn_ns_ != 0) fmt::print(stderr, "\r\x1b[K");
  }
  void show(const PrepareProgress& progress) {
    const std::int64_t now = now_ns();
    if (!live_ || now - drawn_ns_ < 200'000'000) return;
    drawn_ns_ = now;
    const double seconds = ms_since(start_ns_) / 1000;
    const auto done = static_cast<double>(progress.bytes_read);
    const auto total = static_cast<double>(progress.bytes_total);
    fmt::print(stderr, "\r\x1b[K{} of {} ({:.0f} %), {} tokens, {}/s, ETA {}",
               human_bytes(progress.bytes_read), human_bytes(progress.bytes_total),
               total > 0 ? 100 * done / total : 100.0,
               human_count(static_cast<double>(progress.tokens)),
               human_bytes(static_cast<std::int64_t>(done / seconds)),
               human_duration(done > 0 ? (total - done) * seconds / done : -1));
    std::fflush(stderr);
  }

 private:
  const bool live_ = ConsoleStyle::of(STDERR_FILENO).live;
  const std::int64_t start_ns_ = now_ns();
  std::int64_t drawn_ns_ = 0;
};

class DataPrepare final : public Command {
 public:
  std::string_view name() const override { return "data prepare"; }
  std::string_view summary() const override {
    return "turn text and JSONL, also .gz and .zst, into token files";
  }

  void add_options(Options& options) override {
    options.add("--input", options_.inputs, "files and folders to read").required();
    options.add("--out", options_.out, "prefix of the files to write").required();
    options.add("--tokenizer", options_.tokenizer, "byte, a model folder, or a tokenizer.json");
    options.add("--json_field", options_.json_field, "the text's field in a .jsonl line");
    options.add("--end_of_text", options_.end_of_text,
                "token between documents (default: the tokenizer's own)");
    options.add("--threads", options_.threads, "threads to use (default: all cores)");
    options.add_flag("--overwrite", options_.overwrite, "replace data that was prepared before");
    options.add_flag("--skip_bad_lines", options_.skip_bad_lines,
                     "count lines of JSON without a text instead of stopping at the first");
    options.add_flag("--json", json_,
                     "print the manifest and what was skipped as JSON, instead of a summary");
  }

  int run(const std::vector<std::string>&) override {
    const PrepareResult result = run_watched();
    if (result.stopped) {
      tell("hgtrain: stopped; nothing was written\n");
      return 128 + stop_signal;
    }
    if (json_)
      print_json(result);
    else
      print_summary(result);
    return 0;
  }

 private:
  PrepareResult run_watched() const {
    const SignalWatch watch;
    ProgressLine line;
    return prepare(options_, [&line](const PrepareProgress& progress) {
      line.show(progress);
      return stop_signal == 0;
    });
  }

  void print_summary(const PrepareResult& result) const {
    const Manifest& m = result.manifest;
    say("{}: {} tokens ({}), {}, from {} of text in {}\n", options_.out, m.tokens, m.dtype,
        human_plural(m.documents, "document"), human_bytes(m.source_bytes),
        human_plural(m.source_files, "file"));
    say("tokenizer {}, vocab_size {}, end of text {}\n", m.tokenizer, m.vocab_size, m.end_of_text);
    print_skipped(result.other_files, "of other kinds");
    print_skipped(result.binary_files, "that are binary or UTF-16");
    print_skipped(result.json_files, "of JSON that is not an object on each line");
    if (!result.json_files.empty())
      say("  to write each element of a JSON array on a line of its own: jq -c '.[]' FILE > "
          "FILE.jsonl\n");
    if (result.bad_lines > 0)
      say("skipped: {}, the first is {}\n", human_plural(result.bad_lines, "bad line"),
          result.first_bad_line);
    std::vector<std::string> skipped;
    for (const auto& [count, what] : {std::pair{result.hidden_files, "hidden file"},
                                      std::pair{result.empty_documents, "empty document"}})
      if (count > 0) skipped.push_back(human_plural(count, what));
    if (!skipped.empty()) say("skipped: {}\n", fmt::join(skipped, ", "));
  }

  /// The manifest, and what was skipped.
  static void print_json(const PrepareResult& result) {
    auto json = parse_json<nlohmann::ordered_json>(to_text(result.manifest));
    json["passed_over"] = {{"other_files", result.other_files},
                           {"json_files", result.json_files},
                           {"bad_lines", result.bad_lines},
                           {"first_bad_line", result.first_bad_line},
                           {"hidden_files", result.hidden_files},
                           {"binary_files", result.binary_files},
                           {"empty_documents", result.empty_documents}};
    say("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  void print_skipped(const std::vector<std::string>& files, const char* kind) const {
    if (files.empty()) return;
    const std::size_t shown = std::min<std::size_t>(files.size(), 3);
    say("skipped: {} {} ({}{})\n", human_plural(std::ssize(files), "file"), kind,
        fmt::join(std::span(files).first(shown), ", "), shown < files.size() ? ", ..." : "");
  }

  PrepareOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> data_prepare_command() {
  return std::make_unique<DataPrepare>();
}

}  // namespace hgt
