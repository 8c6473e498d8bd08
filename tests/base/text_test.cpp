#include "hgtrain/base/text.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a typo finds what was meant") {
  const std::vector<std::string> words = {"train", "launch", "gradient_clipping", "data"};
  CHECK(nearest("trian", words) == "train");
  CHECK(nearest("Launch", words) == "launch");
  CHECK(nearest("gradient_clipp1ng", words) == "gradient_clipping");
}

TEST_CASE("a word far from all has no suggestion") {
  CHECK(nearest("zebra", {"train", "launch"}).empty());
  CHECK(nearest("x", {"lr"}).empty());
  CHECK(nearest("tcsh", {"bash", "zsh"}) == "");
  CHECK(nearest("x", {}).empty());
}

TEST_CASE("a trimmed text has no blanks or tabs around it") {
  CHECK(trimmed(" \ta b\t ") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \t").empty());
}

TEST_CASE("a long text is cut after a whole character") {
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
