#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hgt {

/// Length of the valid UTF-8 at the start of `text`.
std::size_t valid_utf8_prefix(std::string_view text);

/// `text` with U+FFFD in place of each maximal part that starts no character (Unicode 3.9, table
/// 3-8; what Python's errors="replace" does).
std::string replace_invalid_utf8(std::string_view text);

/// `text` without the mark U+FEFF with which editors on Windows begin a file.
std::string_view without_byte_order_mark(std::string_view text);

/// The code point at `at` of valid UTF-8. Moves `at` past it.
char32_t next_code_point(std::string_view text, std::size_t& at);

}  // namespace hgt
