#include "unicode.h"

#include <array>
#include <utf8proc.h>

namespace hgt {

namespace {

/// How many bytes at `at` belong together, and whether they are a character: a whole one, or the
/// longest start of one that a wrong byte or the end of the text cuts short.
struct Run {
  std::size_t bytes;
  bool valid;
};

Run next_run(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return {1, false};
  for (std::size_t i = 2; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return {i, false};
  return {bytes, true};
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Run run = next_run(text, at);
    if (!run.valid) break;
    at += run.bytes;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t good = valid_utf8_prefix(text.substr(at));
    out += text.substr(at, good);
    at += good;
    if (at == text.size()) break;
    out += "\xEF\xBF\xBD";
    at += next_run(text, at).bytes;
  }
  return out;
}

char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t code_point = lead & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) code_point = code_point << 6 | (text[at++] & 0x3F);
  return code_point;
}

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
