#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lines.h"
#include "output_sink.h"
#include "writer_thread.h"

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
    std::function<void(const std::string& text)> log_failed = [](const std::string&) {};
    std::array<bool, 2> is_shown{true, true};  ///< by stream: whether `console` gets it
  };

  /// `logs` writes the log, and calls `log_failed` on its loop. Error(kData) if the log cannot be
  /// opened.
  RankOutput(WriterThread& logs, Options options);

  void feed(OutputSink::Stream stream, std::string_view bytes);
  /// The console or the log is behind: nobody should feed more.
  bool is_full() const;
  /// Calls `done` on the loop once the log is written, unless this has been destroyed by then.
  void finish(std::function<void()> done);
  /// After finish(): that `done` was not waited for.
  void say_unfinished() const;
  std::vector<std::string> last_lines() const { return last_.lines(); }

 private:
  struct Log;

  void deliver(OutputSink::Stream stream, std::string_view bytes, bool at_end);
  void log(std::string text);

  WriterThread* logs_;
  /// Shared with nobody: what the writer's thread has to report finds it gone if this is gone.
  std::shared_ptr<const Options> options_;
  std::shared_ptr<Log> log_;  // used by the writer's thread only; null: there is none
  std::array<LineCutter, 2> cutters_;
  LastLines last_;
};

}  // namespace hgt
