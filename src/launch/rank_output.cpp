#include "rank_output.h"

#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

RankOutput::RankOutput(Options options) : options_(std::move(options)) {
  if (!options_.log_path.empty())
    log_ = File::open(options_.log_path, O_WRONLY | O_CREAT | O_APPEND);
}

void RankOutput::feed(OutputSink::Stream stream, std::string_view bytes) {
  if (options_.console && options_.is_shown[stream])
    options_.console->write(options_.rank, stream, bytes);
  deliver(stream, bytes, /*at_end=*/false);
}

void RankOutput::finish() {
  deliver(OutputSink::kOut, {}, /*at_end=*/true);
  deliver(OutputSink::kErr, {}, /*at_end=*/true);
  if (options_.console) options_.console->end(options_.rank);
  if (dropped_bytes_ > 0 && options_.log_failed)
    options_.log_failed(fmt::format("{} bytes of output could not be written to {}", dropped_bytes_,
                                    options_.log_path));
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
  if (!for_log.empty()) log(for_log);
}

void RankOutput::log(std::string_view text) {
  if (!log_) return;
  try {
    log_->write(text);
  } catch (const Error& e) {
    if (dropped_bytes_ == 0 && options_.log_failed) options_.log_failed(e.message());
    dropped_bytes_ += std::ssize(text);
  }
}

}  // namespace hgt
