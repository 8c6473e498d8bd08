#include "../../src/data/unicode.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("valid UTF-8 is left alone") {
  const std::string text = "a\u00e9\u6f22\U0001F600\uFFFD\U0010FFFF";
  CHECK(valid_utf8_prefix(text) == text.size());
  CHECK(replace_invalid_utf8(text) == text);
}

TEST_CASE("each maximal part that starts no character becomes U+FFFD") {
  const std::string r = "\uFFFD";
  CHECK(replace_invalid_utf8("\x80") == r);
  CHECK(replace_invalid_utf8("a\xFF"
                             "b") == "a" + r + "b");
  CHECK(replace_invalid_utf8("\xC0\xAF") == r + r);  // overlong
  CHECK(replace_invalid_utf8("\xE2\x82") == r);      // cut short
  CHECK(replace_invalid_utf8("\xE2\x82"
                             "a") == r + "a");
  CHECK(replace_invalid_utf8("\xED\xA0\x80") == r + r + r);  // a surrogate
  CHECK(replace_invalid_utf8("\xF0\x9F\x98") == r);
  CHECK(replace_invalid_utf8("\xF4\x90\x80\x80") == r + r + r + r);  // beyond U+10FFFF
}

TEST_CASE("code points are walked both ways") {
  const std::string text = "a\u00e9\u6f22\U0001F600";
  std::size_t at = 0;
  CHECK(next_code_point(text, at) == U'a');
  CHECK(next_code_point(text, at) == U'\u00e9');
  CHECK(next_code_point(text, at) == U'\u6f22');
  CHECK(next_code_point(text, at) == U'\U0001F600');
  CHECK(at == text.size());
  CHECK(previous_code_point(text, at) == U'\U0001F600');
  CHECK(previous_code_point(text, at) == U'\u6f22');
  CHECK(at == 3);
  std::string back;
  append_utf8(back, U'\U0001F600');
  CHECK(back == "\U0001F600");
}

TEST_CASE("white space and word characters") {
  for (const char32_t c : {U' ', U'\n', U'\u0085', U'\u00a0', U'\u2028', U'\u3000'})
    CHECK(is_white_space(c));
  for (const char32_t c : {U'a', U'\u180e', U'\u200b'}) CHECK_FALSE(is_white_space(c));
  for (const char32_t c : {U'a', U'\u6f22', U'5', U'_', U'\u0301', U'\u200d', U'\u24b6', U'\u2167'})
    CHECK(is_word(c));
  for (const char32_t c : {U' ', U'-', U'\u00bd', U'\U0001F600'}) CHECK_FALSE(is_word(c));
}
