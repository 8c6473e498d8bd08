#include "run_reader.h"

#include <algorithm>
#include <cstring>

namespace hgt {
namespace {

/// The pages of the bytes, in pieces that fit a buffer.
std::vector<Range> pieces_of(std::span<const Range> bytes) {
  constexpr std::int64_t kPage = DirectFile::kAlignment;
  std::vector<Range> runs;
  for (const Range& range : bytes) {
    if (range.size() <= 0) continue;
    const Range pages{range.begin / kPage * kPage, (range.end + kPage - 1) / kPage * kPage};
    if (!runs.empty() && pages.begin <= runs.back().end)
      runs.back().end = std::max(runs.back().end, pages.end);
    else
      runs.push_back(pages);
  }
  std::vector<Range> out;
  for (const Range& run : runs)
    for (std::int64_t at = run.begin; at < run.end; at += RunBuffers::kBytes)
      out.push_back({at, std::min(at + RunBuffers::kBytes, run.end)});
  return out;
}

}  // namespace

RunReader::RunReader(const std::string& path, std::span<const Range> bytes, bool direct)
    : file_(path, O_RDONLY, direct), pieces_(pieces_of(bytes)) {
  read_ahead();
}

RunReader::~RunReader() {
  for (const std::future<void>& read : reading_) read.wait();
}

/// Reads ahead into all buffers except the one with the current piece.
void RunReader::read_ahead() {
  while (started_ < pieces_.size() && reading_.size() < RunBuffers::kCount - 1) {
    const Range piece = pieces_[started_];
    const auto buffer = buffers_[started_].first(static_cast<std::size_t>(piece.size()));
    reading_.push_back(std::async(std::launch::async, [this, begin = piece.begin, buffer] {
      file_.read_aligned(begin, buffer);
    }));
    ++started_;
  }
}

void RunReader::advance() {
  if (reading_.empty()) throw Error(ErrorKind::kInternal, "bytes are read that were not asked for");
  std::future<void> first = std::move(reading_.front());
  reading_.pop_front();
  first.get();
  current_ = pieces_[started_ - reading_.size() - 1];
  read_ahead();
}

void RunReader::read(std::int64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    while (offset >= current_.end) advance();
    const std::span<std::byte> there = buffers_[started_ - reading_.size() - 1].subspan(
        static_cast<std::size_t>(offset - current_.begin),
        static_cast<std::size_t>(current_.end - offset));
    const std::size_t count = std::min(there.size(), out.size());
    std::memcpy(out.data(), there.data(), count);
    out = out.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
}

}  // namespace hgt
