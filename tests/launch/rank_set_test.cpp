#include "hgtrain/launch/rank_set.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("ranks are numbers and ranges, and are written in the same way, in order") {
  const RankSet ranks = RankSet::parse("5, 0-2,4");
  CHECK(ranks.text() == "0-2,4-5");
  CHECK(ranks.has(4));
  CHECK_FALSE(ranks.has(3));
  CHECK(ranks.largest() == 5);
  CHECK(ranks.count_of(5) == 4);
}

TEST_CASE("a rank that the job does not have is an error that names it") {
  RankSet::parse("0-7").require_in(8);
  RankSet::all().require_in(1);
  CHECK_THROWS_WITH(RankSet::parse("0,8").require_in(8),
                    "there is no rank 8 in a job of ranks 0-7");
  CHECK_THROWS_WITH(RankSet::parse("1").require_in(1), Catch::Contains("which is rank 0"));
}

TEST_CASE("\"all\" are the ranks of any job, and \"none\" are no ranks") {
  CHECK(RankSet::parse("all").has(4095));
  CHECK(RankSet::parse("all").count_of(3) == 3);
  CHECK(RankSet::parse("all").text() == "all");
  CHECK_FALSE(RankSet::parse("none").has(0));
  CHECK(RankSet::parse("none").text() == "none");
  CHECK(RankSet().count_of(3) == 0);
}

TEST_CASE("text that is neither a number nor a range is an error that says how to write ranks") {
  for (const char* text : {"", "0,", "x", "3-1", "-1", "0-99999999"})
    CHECK_THROWS_WITH(RankSet::parse(text), Catch::Contains("names no ranks"));
}
