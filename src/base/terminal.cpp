#include "hgtrain/base/terminal.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>

namespace hgt {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

/// The first character of `text`, which is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t bytes = byte(0) < 0x80   ? 1
                            : byte(0) < 0xc2 ? 0
                            : byte(0) < 0xe0 ? 2
                            : byte(0) < 0xf0 ? 3
                            : byte(0) < 0xf5 ? 4
                                             : 0;
  if (bytes == 1) return {byte(0), 1};
  if (bytes == 0 || text.size() < bytes) return {};
  std::uint32_t code = byte(0) & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[bytes] || code > 0x10ffff || surrogate ? Character{}
                                                              : Character{code, bytes};
}

bool is_command(std::uint32_t code) {
  if (code == '\n' || code == '\t') return false;
  const auto in = [code](std::uint32_t first, std::uint32_t last) {
    return first <= code && code <= last;
  };
  return code < 0x20 || in(0x7f, 0x9f) || code == 0x061c || in(0x200e, 0x200f) ||
         in(0x2028, 0x202e) || in(0x2066, 0x2069);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = first_character(text);
    if (bytes == 0)
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    else if (is_command(code))
      out += fmt::format("\\u{:04x}", code);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
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
