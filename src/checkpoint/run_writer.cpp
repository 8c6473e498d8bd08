#include "run_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace hgt {
namespace {

/// The place of a byte of the file in a buffer, which has the same offset within a page as in the
/// file.
std::int64_t page_of(std::int64_t offset) {
  return offset / DirectFile::kAlignment * DirectFile::kAlignment;
}

}  // namespace

RunBuffers::RunBuffers()
    : memory_("buffers of a checkpoint", kCheckpointBufferBytes + DirectFile::kAlignment) {}

std::span<std::byte> RunBuffers::operator[](std::size_t turn) const {
  void* aligned = memory_.data();
  auto space = static_cast<std::size_t>(memory_.bytes());
  std::align(DirectFile::kAlignment, kCheckpointBufferBytes, aligned, space);
  return {static_cast<std::byte*>(aligned) + turn % kCount * kBytes, kBytes};
}

RunWriter::~RunWriter() {
  for (const std::future<void>& write : writing_) write.wait();
}

void RunWriter::put(std::int64_t offset, std::span<const std::byte> bytes) {
  if (offset != end_) {
    flush();
    begin_ = end_ = offset;
  }
  while (!bytes.empty()) {
    const std::span<std::byte> free =
        buffers_[turn_].subspan(static_cast<std::size_t>(end_ - page_of(begin_)));
    const std::size_t count = std::min(free.size(), bytes.size());
    std::memcpy(free.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    end_ += static_cast<std::int64_t>(count);
    if (count == free.size()) flush();
  }
}

void RunWriter::flush() {
  if (begin_ == end_) return;
  const auto piece = buffers_[turn_].subspan(static_cast<std::size_t>(begin_ - page_of(begin_)),
                                             static_cast<std::size_t>(end_ - begin_));
  writing_.push_back(std::async(std::launch::async,
                                [this, begin = begin_, piece] { file_.write_at(begin, piece); }));
  ++turn_;
  begin_ = end_;
  if (writing_.size() == RunBuffers::kCount) finish_first();
}

void RunWriter::finish_first() {
  std::future<void> first = std::move(writing_.front());
  writing_.pop_front();
  first.get();
}

void RunWriter::finish() {
  flush();
  while (!writing_.empty()) finish_first();
  file_.sync();
  file_.close();
}

}  // namespace hgt
