#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "hgtrain/base/utf8.h"

namespace hgt {

/// The code point that ends at `at` > 0; moves `at` to its start.
char32_t previous_code_point(std::string_view text, std::size_t& at);
void append_utf8(std::string& text, char32_t code_point);

bool is_white_space(char32_t code_point);  ///< property White_Space
/// Equivalent to \w of Unicode regular expressions (UTS 18, annex C): letters, marks, decimal
/// digits, connectors.
bool is_word(char32_t code_point);

}  // namespace hgt
