#include "hgtrain/base/shorten.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a long text is cut behind a whole character") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc...");
  CHECK(shortened("ab\xc3\xa4", 3) == "ab...");
  CHECK(shortened("\x80\x80\x80\x80", 2) == "...");
  CHECK(shortened(std::string(1 << 20, 'x')).size() == 103);
}

TEST_CASE("a long list says how many more there are") {
  CHECK(listed({}).empty());
  CHECK(listed({"a", "b"}, 2) == "a, b");
  CHECK(listed({"a", "b", "c", "d"}, 2) == "a, b and 2 more");
}
