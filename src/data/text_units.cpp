#include "text_units.h"

#include <algorithm>

namespace hgt {

namespace {
constexpr std::size_t kBinaryCheckBytes = 8192;
}

std::int64_t TextUnits::bytes_taken() const {
  return bytes_before_ + (source_ ? source_->bytes_taken() : 0);
}

TextUnit TextUnits::next() {
  TextUnit unit;
  std::size_t bytes = 0;
  while (bytes < kUnitBytes && (source_ || open_next())) {
    unit.push_back(next_part());
    bytes += unit.back().text.size() + sizeof(TextPart);
    text_bytes_ += static_cast<std::int64_t>(unit.back().text.size());
  }
  return unit;
}

/// Opens the next file that is text; false after the last.
bool TextUnits::open_next() {
  while (next_file_ < files_.size()) {
    const SourceFile& file = files_[next_file_++];
    source_ = ByteSource::open(file.path);
    pending_.clear();
    at_end_ = false;
    line_ = 1;
    fill(kBinaryCheckBytes);
    if (!file.from_folder || pending_.find('\0') == std::string::npos) return true;
    ++binary_files_;
    bytes_before_ += file.bytes;
    source_.reset();
  }
  return false;
}

/// Reads on until `bytes` are pending or the file ends.
std::size_t TextUnits::fill(std::size_t bytes) {
  const std::size_t before = pending_.size();
  if (!at_end_ && before < bytes) {
    pending_.resize(bytes);
    pending_.resize(before + source_->read(std::span(pending_).subspan(before)));
    at_end_ = pending_.size() < bytes;
  }
  return pending_.size();
}

/// How much of `pending_` may be given out while more is to come; 0: it must grow first.
std::size_t TextUnits::cut() const {
  if (files_[next_file_ - 1].json_lines) return pending_.rfind('\n') + 1;  // npos + 1 = 0
  return tokenizer_.safe_cut(pending_);
}

TextPart TextUnits::next_part() {
  const SourceFile& file = files_[next_file_ - 1];
  std::size_t bytes = fill(kUnitBytes);
  while (!at_end_ && (bytes = cut()) == 0) fill(2 * pending_.size());
  if (at_end_) bytes = pending_.size();

  TextPart part{&file, pending_.substr(0, bytes), line_, at_end_};
  if (file.json_lines) line_ += std::ranges::count(part.text, '\n');
  pending_.erase(0, bytes);
  if (at_end_) {
    bytes_before_ += source_->bytes_taken();
    source_.reset();
  }
  return part;
}

}  // namespace hgt
