#include "hgtrain/base/suggest.h"

#include <catch2/catch.hpp>

using hgt::nearest;

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
