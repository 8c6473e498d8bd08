#include "hgtrain/base/json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace hgt;
using nlohmann::json;
using nlohmann::ordered_json;

TEST_CASE("a JSON text is read into either type, and ordered_json keeps the order of its keys") {
  CHECK(parse_json<json>(R"({"b": [1, 2.5], "a": null})").dump() == R"({"a":null,"b":[1,2.5]})");
  CHECK(parse_json<ordered_json>(R"({"b": 1, "a": 2})").dump() == R"({"b":1,"a":2})");
  CHECK(try_parse_json<json>("[true]") == json{true});
}

TEST_CASE("a text that is not JSON throws, or gives a discarded value") {
  for (const char* text : {"", "{", "[1,]", "{} {}", "1e999", "\"\xff\""}) {
    CHECK_THROWS_AS(parse_json<json>(text), json::exception);
    CHECK_THROWS_AS(parse_json<ordered_json>(text), json::exception);
    CHECK(try_parse_json<json>(text).is_discarded());
    CHECK(try_parse_json<ordered_json>(text).is_discarded());
  }
}

TEST_CASE("only a whole number is a JSON integer") {
  CHECK(json_integer(parse_json<json>("-7")) == -7);
  CHECK(json_integer(parse_json<json>("9223372036854775807")) == INT64_MAX);
  CHECK(json_integer(parse_json<json>("9223372036854775808")) < 0);
  for (const char* text : {"2.5", "1e99", "true", "\"1\"", "null", "[1]"})
    CHECK_THROWS_AS(json_integer(parse_json<json>(text)), json::type_error);
}
