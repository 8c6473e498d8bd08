#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "../../src/data/regex.h"

using Catch::Contains;
using hgt::pcre2_pattern;

TEST_CASE("what both engines read alike stays as it is") {
  for (const char* same :
       {"a|b", "(?:x)+?y*+z?", "(?=a)(?!b)(?<=c)(?<!d)(?>e)", "(?i:'s)", "\\n\\r\\t\\.\\-",
        "[a-z\\]\\n-]", "a{2,3}b{1,}c{4}", "^.$", "\\x{1F600}", "漢字[あ-ん]"})
    CHECK(pcre2_pattern(same) == same);
}

TEST_CASE("what they read differently is spelled out") {
  CHECK(pcre2_pattern("\\d\\D") == "\\p{Nd}\\P{Nd}");
  CHECK(pcre2_pattern("\\u00e9\\x41") == "\\x{00e9}\\x{41}");
  CHECK(pcre2_pattern("a{b") == "a\\{b");
  CHECK_THAT(pcre2_pattern("\\s"), Catch::StartsWith("[\\x{9}-\\x{d}\\x{20}"));
  CHECK_THAT(pcre2_pattern("[^\\s]"), Catch::StartsWith("[^\\x{9}-\\x{d}\\x{20}"));
}

TEST_CASE("what cannot be spelled for PCRE2 is refused with the reason") {
  const auto refuses = [](const char* pattern, const char* what) {
    CHECK_THROWS_WITH(pcre2_pattern(pattern), Contains(what));
  };
  refuses("[a&&b]", "&&");
  refuses("[a[b]]", "a class within a class");
  refuses("[]a]", "']' first");
  refuses("[a", "without end");
  refuses("\\w+", "\\w");
  refuses("\\bx", "\\b");
  refuses("\\h", "\\h");
  refuses("(a)\\1", "\\1");
  refuses("\\xE4", "\\xE4");
  refuses("\\x{", "malformed");
  refuses("\\pL", "without braces");
  refuses("(?m:.)", "(?m:");
  refuses("(?i)a", "(?i)");
  refuses("(*UTF)", "(*");
  refuses("a{,3}", "{,n}");
  refuses("a{2}+", "{n}+");
  refuses("a{2}?", "{n}?");
  refuses("a\\", "backslash");
}
