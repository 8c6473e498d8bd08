#include "../../src/data/regex.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "../../src/data/pattern.h"

using namespace hgt;
using Catch::Contains;

namespace {
std::vector<std::string> all(const std::string& pattern, std::string_view text) {
  std::vector<std::string> found;
  for (const Match& m : find_all(Regex(pattern), text))
    found.emplace_back(text.substr(m.begin, m.end - m.begin));
  return found;
}
using Found = std::vector<std::string>;
}  // namespace

TEST_CASE("white space, letters and numbers are those of Unicode") {
  CHECK(all("\\s", "a\u00a0b\u0085\u180e\u3000") == Found{"\u00a0", "\u0085", "\u3000"});
  CHECK(all("\\S+", "a \u180e\u200b") == Found{"a", "\u180e\u200b"});
  CHECK(all("\\p{L}+", "aé漢 1\U00031350") ==
        Found{"aé漢", "\U00031350"});  // the last of Unicode 15
  CHECK(all("\\P{L}+", "a1!\U00031350") == Found{"1!"});
  CHECK(all("[^\\s\\p{N}]+", "a1٣½b") == Found{"a", "b"});
  CHECK(all("\\p{Han}+", "漢、字") == Found{"漢", "字"});  // U+3001 is used with Han, not of it
}

TEST_CASE("punctuation and symbols are those of Unicode 16") {
  CHECK(all("\\p{P}+", "a\U0001E5FFb\u1b4e!c\U00010d6e") ==
        Found{"\U0001E5FF", "\u1b4e!", "\U00010d6e"});
  CHECK(all("[\\p{S}]+", "a\U0001FAE9b\u31ef+c\U00010d8e") ==
        Found{"\U0001FAE9", "\u31ef+", "\U00010d8e"});
  CHECK(all("\\p{Sm}+", "\U0001FAE9\U00010d8e") == Found{"\U00010d8e"});
  CHECK(all("\\P{P}+", "a\U0001E5FF!") == Found{"a"});
}

TEST_CASE("lines begin and end at line feeds") {
  CHECK(all("^.|.$", "ab\ncd\r\n") == Found{"a", "b", "c", "\r"});
}

TEST_CASE("case is ignored if that is asked for") {
  CHECK(all("(?i:'s|'ll)", "'S'Ll'ſ") == Found{"'S", "'Ll", "'ſ"});
}

TEST_CASE("empty matches advance by a character") {
  CHECK(all("b*", "abé") == Found{"", "b", ""});
  CHECK(find_all(Regex("x*"), "").size() == 1);
}

TEST_CASE("patterns that make no sense or no end are errors") {
  CHECK_THROWS_WITH(Regex("(a"), Contains("the pattern (a is not understood at byte 2: "));
  CHECK_THROWS_WITH(Regex("[a&&b]"), Contains("the pattern [a&&b] uses a class with &&"));
  CHECK_THROWS_WITH(all("(a+)+(b+)+$", std::string(200, 'a') + std::string(200, 'b') + "c"),
                    Contains("split pattern (a+)+(b+)+$ fails on a text of 401 bytes: "));
}
