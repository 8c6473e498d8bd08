#include "log_file.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <span>
#include <utility>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::int64_t kBlockBytes = 64 << 10;

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

LogFile::LogFile(const std::string& path, std::string prefix)
    : file_(File::open(path, O_RDONLY, 0, ErrorKind::kConfig)), prefix_(std::move(prefix)) {}

void LogFile::skip_to_last(std::int64_t count) {
  at_ = file_.size();
  std::string block;
  // The newline that ends the last line begins none.
  std::int64_t end = at_ > 0 ? at_ - 1 : 0;
  if (count == 0) return;
  for (std::int64_t lines = 0; end > 0;) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - kBlockBytes);
    block.resize(static_cast<std::size_t>(end - begin));
    file_.read_at(begin, std::as_writable_bytes(std::span(block)));
    for (std::size_t i = block.size(); i-- > 0;)
      if (block[i] == '\n' && ++lines == count) {
        at_ = begin + static_cast<std::int64_t>(i) + 1;
        return;
      }
    end = begin;
  }
  at_ = 0;
}

void LogFile::print(bool to_the_end) {
  std::string block;
  for (std::int64_t end = file_.size(); at_ < end;) {
    block.resize(static_cast<std::size_t>(std::min(end - at_, kBlockBytes)));
    file_.read_at(at_, std::as_writable_bytes(std::span(block)));
    at_ += std::ssize(block);
    line_ += block;
    const std::size_t newline = line_.rfind('\n');
    const std::size_t ready = newline != std::string::npos      ? newline + 1
                              : std::ssize(line_) > kBlockBytes ? line_.size()
                                                                : 0;
    print_lines(std::string_view(line_).substr(0, ready));
    line_.erase(0, ready);
  }
  if (!to_the_end) return;
  print_lines(std::exchange(line_, {}));
  if (is_in_line_ && !prefix_.empty()) print_lines("\n");  // another rank's line comes next
}

void LogFile::print_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!is_in_line_) hgt::print(prefix_);
    hgt::print(text.substr(0, size));
    is_in_line_ = text[size - 1] != '\n';
    text.remove_prefix(size);
  }
}

}  // namespace hgt
