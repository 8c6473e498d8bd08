#include "unicode.h"

#include <array>
#include <utf8proc.h>

namespace hgt {

char32_t previous_code_point(std::string_view text, std::size_t& at) {
  do --at;
  while (at > 0 && (text[at] & 0xC0) == 0x80);
  std::size_t from = at;
  return next_code_point(text, from);
}

void append_utf8(std::string& text, char32_t code_point) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(bytes.begin(), bytes.begin() + count);
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word(char32_t code_point) {
  const bool circled_letter = (code_point >= 0x24B6 && code_point <= 0x24E9) ||
                              (code_point >= 0x1F130 && code_point <= 0x1F149) ||
                              (code_point >= 0x1F150 && code_point <= 0x1F169) ||
                              (code_point >= 0x1F170 && code_point <= 0x1F189);
  if (circled_letter || code_point == 0x200C || code_point == 0x200D) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace hgt
