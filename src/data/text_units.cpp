#include "text_units.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/shell.h"

namespace hgt {

namespace {
constexpr std::size_t kCheckedBytes = 8192;

/// Whether JSON that begins like this has one value on each line.
bool begins_with_line(std::string_view start) {
  const std::string_view line = start.substr(0, start.find('\n'));
  return line.size() == start.size() || nlohmann::json::accept(line);
}

/// Whether JSON begins with an object over several lines.
bool begins_with_long_object(std::string_view start) {
  const std::size_t end = std::min(start.find('\n'), start.size());
  return start.starts_with('{') && start.find_last_not_of(" \t\r", end - 1) == 0 &&
         end < start.size();
}

[[noreturn]] void throw_long_object(const std::string& path) {
  throw Error(
      ErrorKind::kData,
      fmt::format("{} has a JSON object that spans several lines; each line must hold one object",
                  path),
      fmt::format("write each object on a line of its own: {} > OUT.jsonl",
                  shell_line({"jq", "-c", ".", path})));
}

[[noreturn]] void throw_json_array(const std::string& path) {
  throw Error(ErrorKind::kData,
              fmt::format("{} is a JSON array; each line must hold one object", path),
              fmt::format("write each element on a line of its own: {} > OUT.jsonl",
                          shell_line({"jq", "-c", ".[]", path})));
}
}  // namespace

void BadLines::add(const BadLines& later) {
  if (count == 0) first = later.first;
  count += later.count;
}

std::int64_t TextUnits::bytes_taken() const {
  return bytes_before_ + (source_ ? source_->bytes_taken() : 0);
}

TextUnit TextUnits::next() {
  TextUnit unit;
  std::size_t bytes = 0;
  while (bytes < kChunkBytes && (source_ || open_next())) {
    unit.push_back(next_part());
    bytes += unit.back().text.size() + sizeof(TextPart);
    text_bytes_ += static_cast<std::int64_t>(unit.back().text.size());
    if (in_dropped_line_) break;
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
    in_document_ = false;
    line_ = 1;
    fill(kCheckedBytes);
    if (!passes_over(file)) return true;
    bytes_before_ += file.bytes;
    source_.reset();
  }
  return false;
}

/// Whether a file that was found in a folder is skipped because its first bytes are not text. If
/// the user named the file, that is an Error.
bool TextUnits::passes_over(const SourceFile& file) {
  const std::size_t begin = std::min(pending_.find_first_not_of(" \t\r\n"), pending_.size());
  const std::string_view start = std::string_view(pending_).substr(begin);
  if (pending_.find('\0') != std::string::npos) {
    if (!file.from_folder)
      throw Error(ErrorKind::kData,
                  file.path + " is binary or UTF-16, not text: it holds NUL bytes",
                  "if it is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE > FILE.txt");
    binary_files_.push_back(file.path);
    return true;
  }
  if (!file.json_lines) return false;
  const bool is_array = start.starts_with('[');
  if (is_array && !file.from_folder) throw_json_array(file.path);
  if (!file.from_folder && begins_with_long_object(start)) throw_long_object(file.path);
  const bool may_differ = file.from_folder && without_compression(file.path).ends_with(".json");
  if (!is_array && (!may_differ || begins_with_line(start))) return false;
  json_files_.push_back(file.path);
  return true;
}

/// Reads until `bytes` are pending or the file ends.
std::size_t TextUnits::fill(std::size_t bytes) {
  const std::size_t before = pending_.size();
  if (!at_end_ && before < bytes) {
    pending_.resize(bytes);
    pending_.resize(before + source_->read(std::span(pending_).subspan(before)));
    at_end_ = pending_.size() < bytes;
  }
  return pending_.size();
}

/// How many bytes of `pending_` may be returned before the rest is read; 0: more must be read
/// first.
std::size_t TextUnits::cut() const {
  if (files_[next_file_ - 1].json_lines) return pending_.rfind('\n') + 1;  // npos + 1 = 0
  return tokenizer_.safe_cut(pending_);
}

/// Reads more of a line or piece that has no end yet; false if it is a line to skip.
bool TextUnits::grow() {
  const bool lines = files_[next_file_ - 1].json_lines;
  const std::size_t limit = lines ? kMaxLineBytes : kMaxUncutBytes;
  if (pending_.size() <= limit) {
    fill(std::clamp(2 * pending_.size(), kChunkBytes, limit + 1));
    return true;
  }
  if (!lines || !skip_bad_lines_) throw_too_long(limit);
  return false;
}

void TextUnits::throw_too_long(std::size_t limit) const {
  const SourceFile& file = files_[next_file_ - 1];
  if (!file.json_lines)
    throw Error(ErrorKind::kData,
                fmt::format("{} has more than {} MiB without a place at which this tokenizer "
                            "can split a text",
                            file.path, limit >> 20),
                "split it into documents: several files, or lines of JSON");
  throw Error(ErrorKind::kData, fmt::format("the line is longer than {} MiB", limit >> 20),
              "--skip_bad_lines skips it; a text of its own (.txt) may have any length")
      .in(fmt::format("{}:{}", file.path, line_));
}

/// Drops the pending part of a line that is too long.
void TextUnits::drop_piece() {
  if (!in_dropped_line_)
    bad_lines_.add({1, fmt::format("{}:{}: longer than {} MiB", files_[next_file_ - 1].path, line_,
                                   kMaxLineBytes >> 20)});
  const std::size_t end = pending_.find('\n');
  in_dropped_line_ = end == std::string::npos && !at_end_;
  pending_.erase(0, end == std::string::npos ? end : end + 1);
  if (!in_dropped_line_) ++line_;
}

TextPart TextUnits::next_part() {
  const SourceFile& file = files_[next_file_ - 1];
  std::size_t bytes = fill(kChunkBytes);
  if (in_dropped_line_) drop_piece();
  while (!in_dropped_line_ && !at_end_ && (bytes = cut()) == 0)
    if (!grow()) drop_piece();
  if (in_dropped_line_) bytes = 0;
  if (at_end_) bytes = pending_.size();

  TextPart part{&file, pending_.substr(0, bytes), line_, at_end_, !in_document_};
  in_document_ = !file.json_lines && !at_end_;
  if (file.json_lines) line_ += std::ranges::count(part.text, '\n');
  pending_.erase(0, bytes);
  if (at_end_) {
    bytes_before_ += source_->bytes_taken();
    source_.reset();
  }
  return part;
}

}  // namespace hgt
