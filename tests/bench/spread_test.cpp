#include "spread.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a spread is the median and the tenths at both ends") {
  const Spread spread = spread_of({5, 1, 4, 2, 3, 6, 7, 8, 9, 10, 11});
  CHECK(spread.median == 6);
  CHECK(spread.p10 == 2);
  CHECK(spread.p90 == 10);
  CHECK(spread_of({1, 2}).median == 1.5);
  CHECK(spread_of({7}).p90 == 7);
  CHECK(spread_of({}).median == 0);
}
