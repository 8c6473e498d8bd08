#include "../../src/data/added_tokens.h"

#include <catch2/catch.hpp>

using hgt::AddedToken;
using hgt::AddedTokens;

namespace {

/// Segments as "text" or "[token]", one after the other.
std::string split(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::string out;
  for (const auto& segment : AddedTokens(tokens).split(text))
    out += (segment.id < 0 ? "'" : "[") + std::string(segment.text) + (segment.id < 0 ? "'" : "]");
  return out;
}

}  // namespace

TEST_CASE("the leftmost token is found, and the longest one of several") {
  const std::vector<AddedToken> tokens = {{"<a>", 1}, {"<a><b>", 2}, {"b><", 3}, {"", 4}};
  CHECK(split(tokens, "x<a>y") == "'x'[<a>]'y'");
  CHECK(split(tokens, "<a><b><a>") == "[<a><b>][<a>]");
  CHECK(split(tokens, "<a><c") == "[<a>]'<c'");
  CHECK(split(tokens, "b><a>") == "[b><]'a>'");
  CHECK(split(tokens, "") == "");
  CHECK(split({}, "plain") == "'plain'");
}

TEST_CASE("a single word touches no word character") {
  const std::vector<AddedToken> tokens = {{.content = "foo", .id = 1, .single_word = true}};
  CHECK(split(tokens, "foo") == "[foo]");
  CHECK(split(tokens, "(foo)") == "'('[foo]')'");
  CHECK(split(tokens, "food") == "'food'");
  CHECK(split(tokens, "éfoo") == "'éfoo'");
  CHECK(split(tokens, "foo\u0301") == "'foo\u0301'");  // a mark counts as part of the word
  CHECK(split(tokens, "foo_ foo") == "'foo_ '[foo]");
}

TEST_CASE("white space next to a token belongs to it if the token strips") {
  const AddedToken left{.content = "<l>", .id = 1, .lstrip = true};
  const AddedToken right{.content = "<r>", .id = 2, .rstrip = true};
  CHECK(split({left}, "a \u3000\n<l> b") == "'a'[ \u3000\n<l>]' b'");
  CHECK(split({right}, "a <r> \t b") == "'a '[<r> \t ]'b'");
  CHECK(split({left, right}, "<r>  <l>") == "[<r>  ][<l>]");  // what is taken is not taken again
}
