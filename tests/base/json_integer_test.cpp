#include "hgtrain/base/json_integer.h"

#include <catch2/catch.hpp>

using namespace hgt;
using nlohmann::json;

TEST_CASE("only a whole number is a JSON integer") {
  CHECK(json_integer(json::parse("-7")) == -7);
  CHECK(json_integer(json::parse("9223372036854775807")) == INT64_MAX);
  CHECK(json_integer(json::parse("9223372036854775808")) < 0);
  for (const char* text : {"2.5", "1e99", "true", "\"1\"", "null", "[1]"})
    CHECK_THROWS_AS(json_integer(json::parse(text)), json::type_error);
}
