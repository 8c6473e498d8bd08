#include "hgtrain/base/terminal.h"

#include <cstdint>
#include <cstdio>
#include <iostream>

#include "hgtrain/base/utf8.h"

namespace hgt {
namespace {

bool is_command(char32_t code) {
  if (code == '\n' || code == '\t') return false;
  const auto in = [code](char32_t first, char32_t last) { return first <= code && code <= last; };
  return code < 0x20 || in(0x7f, 0x9f) || code == 0x061c || in(0x200e, 0x200f) ||
         in(0x2028, 0x202e) || in(0x2066, 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    for (std::size_t at = 0; at < valid;) {
      const std::size_t begin = at;
      const char32_t code = next_code_point(text, at);
      if (is_command(code))
        out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
      else
        out += text.substr(begin, at - begin);
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    text.remove_prefix(1);
  }
  return out;
}

void print_out(std::string_view text) {
  const std::string safe = printable(text);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
}

void print_error(std::string_view text) {
  std::cerr << printable(text) << std::flush;
}

}  // namespace hgt
