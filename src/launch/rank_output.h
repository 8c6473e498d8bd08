#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hgtrain/base/file.h"

#include "lines.h"
#include "output_sink.h"

namespace hgt {

/// Distributes the output of one rank to its log, to the console, and to a buffer for the verdict.
/// The log gets whole lines, so that those of stdout and stderr never mix.
class RankOutput {
 public:
  struct Options {
    std::string log_path;  ///< appended to; "" = no log
    int rank = 0;
    OutputSink* console = nullptr;  ///< nullptr = not shown
    /// Called once if the log cannot be written (a full disk), and at the end with how much it
    /// lacks. Each line is tried again.
    std::function<void(const std::string& text)> log_failed;
    std::array<bool, 2> is_shown{true, true};  ///< by stream: whether `console` gets it
  };

  /// Error(kData) if the log cannot be opened.
  explicit RankOutput(Options options);

  void feed(OutputSink::Stream stream, std::string_view bytes);
  void finish();
  std::vector<std::string> last_lines() const { return last_.lines(); }

 private:
  void deliver(OutputSink::Stream stream, std::string_view bytes, bool at_end);
  void log(std::string_view text);

  Options options_;
  std::optional<File> log_;
  std::int64_t dropped_bytes_ = 0;
  std::array<LineCutter, 2> cutters_;
  LastLines last_;
};

}  // namespace hgt
