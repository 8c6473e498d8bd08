#include "hgtrain/infer/text_stream.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/utf8.h"

namespace hgt {

namespace {

/// The number of bytes at the end of `text` that may be the start of a character.
std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t bytes = byte > 0xF4    ? 1
                              : byte >= 0xF0 ? 4
                              : byte >= 0xE0 ? 3
                              : byte >= 0xC2 ? 2
                                             : 1;
    return bytes > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string TextStream::add(std::string_view bytes) {
  pending_ += bytes;
  const std::size_t whole = pending_.size() - unfinished_bytes(pending_);
  std::string text = replace_invalid_utf8(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return text;
}

std::string TextStream::finish() {
  return replace_invalid_utf8(std::exchange(pending_, {}));
}

}  // namespace hgt
