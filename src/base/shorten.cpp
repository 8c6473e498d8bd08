#include "hgtrain/base/shorten.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hgt {

std::string shortened(const std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string listed(const std::vector<std::string>& words, std::size_t max_words) {
  const std::size_t shown = std::min(words.size(), max_words);
  const auto end = words.begin() + static_cast<std::ptrdiff_t>(shown);
  const std::string rest =
      shown < words.size() ? fmt::format(" and {} more", words.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(words.begin(), end, ", "), rest);
}

}  // namespace hgt
