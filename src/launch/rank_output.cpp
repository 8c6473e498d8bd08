#include "rank_output.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/file.h"

namespace hgt {

struct RankOutput::Log {
  File file;
  std::int64_t dropped_bytes = 0;
  bool is_torn = false;  // it ends within a line, because the disk was full

  /// Returns what failed if nothing did before, else "".
  std::string write(const std::string& text) {
    const std::string bytes = is_torn ? "\n" + text : text;
    const auto [done, error] = write_bytes(file.fd(), bytes);
    if (done > 0) is_torn = error != 0 && bytes[done - 1] != '\n';
    if (error == 0) return "";
    const std::int64_t before = dropped_bytes;
    dropped_bytes += static_cast<std::int64_t>(std::min(text.size(), bytes.size() - done));
    return before > 0 ? "" : fmt::format("cannot write {}: {}", file.path(), std::strerror(error));
  }
};

RankOutput::RankOutput(WriterThread& logs, Options options)
    : logs_(&logs), options_(std::make_shared<const Options>(std::move(options))) {
  if (const std::string& path = options_->log_path; !path.empty())
    log_ = std::make_shared<Log>(Log{File::open(path, O_WRONLY | O_CREAT | O_APPEND)});
}

void RankOutput::feed(OutputSink::Stream stream, std::string_view bytes) {
  if (options_->console && options_->is_shown[stream])
    options_->console->write(options_->rank, stream, bytes);
  deliver(stream, bytes, /*at_end=*/false);
}

bool RankOutput::is_full() const {
  return logs_->is_full() || (options_->console && options_->console->is_full());
}

void RankOutput::finish(std::function<void()> done) {
  deliver(OutputSink::kOut, {}, /*at_end=*/true);
  deliver(OutputSink::kErr, {}, /*at_end=*/true);
  if (options_->console) options_->console->end(options_->rank);
  // The thread gets the last reference, because closing the file may take time, too.
  logs_->add(0, [logs = logs_, log = std::move(log_), weak = std::weak_ptr(options_), done] {
    logs->post([dropped_bytes = log ? log->dropped_bytes : 0, weak, done] {
      const auto options = weak.lock();
      if (!options) return;
      if (dropped_bytes > 0)
        options->log_failed(fmt::format("{} bytes of output could not be written to {}",
                                        dropped_bytes, options->log_path));
      done();
    });
  });
}

void RankOutput::say_unfinished() const {
  options_->log_failed(fmt::format(
      "{} is not written to its end yet: its disk is slow or stands still", options_->log_path));
}

void RankOutput::deliver(OutputSink::Stream stream, std::string_view bytes, bool at_end) {
  std::string for_log;
  const LineCutter::Sink sink = [&](const Piece& piece) {
    last_.add(piece);
    for_log += piece.text;
  };
  if (at_end)
    cutters_[stream].finish(sink);
  else
    cutters_[stream].feed(bytes, sink);
  if (!for_log.empty()) log(std::move(for_log));
}

void RankOutput::log(std::string text) {
  if (!log_) return;
  const std::size_t bytes = text.size();
  logs_->add(bytes,
             [logs = logs_, log = log_, weak = std::weak_ptr(options_), text = std::move(text)] {
               if (std::string why = log->write(text); !why.empty())
                 logs->post([weak, why = std::move(why)] {
                   if (const auto options = weak.lock()) options->log_failed(why);
                 });
             });
}

}  // namespace hgt
