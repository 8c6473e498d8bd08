#include "printed_ranks.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// Of the local ranks 0-3: those whose stdout, and those whose stderr, is printed.
std::string printed(const std::string& filter, const std::string& tee,
                    const std::string& redirects) {
  std::string out;
  for (const RankSet& ranks : printed_ranks(filter, tee, redirects)) {
    RankSet some;
    for (int rank = 0; rank < 4; ++rank)
      if (ranks.has(rank)) some.add(rank);
    out += (out.empty() ? "" : " and ") + some.text();
  }
  return out;
}

}  // namespace

TEST_CASE("torchrun's --redirects takes streams off the console, and --tee puts them back") {
  CHECK(printed("", "", "") == "0-3 and 0-3");
  CHECK(printed("", "", "0") == "0-3 and 0-3");
  CHECK(printed("", "", "3") == "none and none");
  CHECK(printed("", "", "1") == "none and 0-3");
  CHECK(printed("", "", "2") == "0-3 and none");
  CHECK(printed("", "", "0:3,2:1") == "1,3 and 1-3");
  CHECK(printed("", "1", "3") == "0-3 and none");
  CHECK(printed("", "1:3", "3") == "1 and 1");
  CHECK(printed("", "3", "") == "0-3 and 0-3");
}

TEST_CASE("torchrun's filter of local ranks leaves the others out") {
  CHECK(printed("0,2", "3", "") == "0,2 and 0,2");
  CHECK(printed("0,2", "", "0:1") == "2 and 0,2");
  CHECK_THROWS_AS(printed("x", "", ""), Error);
}

TEST_CASE("streams that torchrun does not have are refused") {
  for (const char* wrong : {"4", "-1", "x", "12", "0:4", ",", "a:1", ":3", "0:"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(printed("", "", wrong),
                      Catch::Contains(std::string("--redirects ") + wrong + " names no streams"));
    CHECK_THROWS_AS(printed("", wrong, ""), Error);
  }
}

TEST_CASE("files are asked for unless no stream is") {
  for (const char* some : {"1", "3", "0:3,1:0"}) CHECK(asks_for_files("--tee", some));
  for (const char* none : {"", "0", "1:0"}) CHECK_FALSE(asks_for_files("--tee", none));
}
