#include "hgtrain/base/utf8.h"

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

TEST_CASE("a byte order mark is only that at the start") {
  CHECK(without_byte_order_mark("\xEF\xBB\xBF"
                                "a\xEF\xBB\xBF") == "a\xEF\xBB\xBF");
  CHECK(without_byte_order_mark("\xEF\xBB") == "\xEF\xBB");
}

TEST_CASE("code points are read one after the other") {
  const std::string text = "a\u00e9\u6f22\U0001F600";
  std::size_t at = 0;
  for (const char32_t expected : {U'a', U'\u00e9', U'\u6f22', U'\U0001F600'})
    CHECK(next_code_point(text, at) == expected);
  CHECK(at == text.size());
}
