#include "../../src/data/unicode.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("code points are read backwards") {
  const std::string text = "a\u00e9\u6f22\U0001F600";
  std::size_t at = text.size();
  CHECK(previous_code_point(text, at) == U'\U0001F600');
  CHECK(previous_code_point(text, at) == U'\u6f22');
  CHECK(at == 3);
  std::string back;
  append_utf8(back, U'\U0001F600');
  CHECK(back == "\U0001F600");
}

TEST_CASE("white space and word characters are those of Unicode") {
  for (const char32_t c : {U' ', U'\n', U'\u0085', U'\u00a0', U'\u2028', U'\u3000'})
    CHECK(is_white_space(c));
  for (const char32_t c : {U'a', U'\u180e', U'\u200b'}) CHECK_FALSE(is_white_space(c));
  for (const char32_t c : {U'a', U'\u6f22', U'5', U'_', U'\u0301', U'\u200d', U'\u24b6', U'\u2167'})
    CHECK(is_word(c));
  for (const char32_t c : {U' ', U'-', U'\u00bd', U'\U0001F600'}) CHECK_FALSE(is_word(c));
}
