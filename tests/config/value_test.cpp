#include "value.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/base/json.h"
#include "hgtrain/config/config.h"

using namespace hgt;
using Json = nlohmann::ordered_json;

namespace {

Value read(Kind kind, const Json& given) {
  return to_value(ignored("k", kind, ""), given);
}

Json taken(Kind kind, const Json& given) {
  const Value value = read(kind, given);
  return value.problem.empty() ? value.json : Json("refused: " + value.problem);
}

bool refused(Kind kind, const Json& given) {
  return !read(kind, given).problem.empty();
}

}  // namespace

TEST_CASE("flags may be words or 0 and 1") {
  for (const Json& yes : {Json(true), Json("true"), Json("True"), Json(1)})
    CHECK(taken(Kind::kBool, yes) == true);
  for (const Json& no : {Json(false), Json("false"), Json(0)})
    CHECK(taken(Kind::kBool, no) == false);
  CHECK_FALSE(read(Kind::kBool, "true").notice.empty());
  CHECK(read(Kind::kBool, true).notice.empty());
  for (const Json& wrong : {Json("yes"), Json(2), Json(1.5), Json::array(), Json::object()})
    CHECK(refused(Kind::kBool, wrong));
}

TEST_CASE("whole numbers may be written as floats or text, never as flags") {
  CHECK(taken(Kind::kInteger, 5e8) == 500000000);
  CHECK(taken(Kind::kInteger, "200000000") == 200000000);
  CHECK(taken(Kind::kInteger, "5e8") == 500000000);
  CHECK(taken(Kind::kInteger, 1e19) == 1e19);  // it fills nothing
  CHECK(taken(Kind::kInteger, -1e19) == INT64_MIN);
  for (const Json& wrong : {Json(true), Json(1.5), Json("many"), Json(""), Json("3 "),
                            Json(INFINITY), Json(NAN), Json::array(), Json("0x10")})
    CHECK(refused(Kind::kInteger, wrong));
  const Value count = to_value(ignored("k", Kind::kInteger, "").elements(), 15099494.4);
  CHECK(count.json == 15099494);
  CHECK_FALSE(count.notice.empty());
}

TEST_CASE("numbers may be text") {
  CHECK(taken(Kind::kNumber, 1) == 1);
  CHECK(taken(Kind::kNumber, "1e-3") == 1e-3);
  for (const Json& wrong : {Json(true), Json("inf"), Json("nan"), Json(INFINITY), Json(NAN)})
    CHECK(refused(Kind::kNumber, wrong));
}

TEST_CASE("values must be in their range") {
  const auto problem = [](Field field, const Json& given) {
    return to_value(field, given).problem;
  };
  CHECK(problem(ignored("k", Kind::kInteger, "").at_least(0), -1) == "= -1 is negative");
  CHECK(problem(ignored("k", Kind::kInteger, "").at_least(1), 0) == "= 0, but must be at least 1");
  CHECK(problem(ignored("k", Kind::kNumber, "").above(0), 0.0) == "= 0.0, but must be more than 0");
  CHECK(problem(ignored("k", Kind::kNumber, "").at_most(1), 1.5) == "= 1.5, but must be at most 1");
  CHECK(problem(ignored("k", Kind::kNumber, "").at_most(1), 1) == "");
}

TEST_CASE("infinity and NaN are refused by name; a count of elements saturates") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(to_value(ignored("k", Kind::kNumber, ""), infinity).problem ==
        "must be a finite number, not Infinity");
  CHECK(to_value(ignored("k", Kind::kInteger, ""), std::nan("")).problem ==
        "must be a finite number, not NaN");
  CHECK(to_value(ignored("k", Kind::kInteger, "").elements(), infinity).json == INT64_MAX);
}

TEST_CASE("choices ignore case, and a wrong one gets a suggestion") {
  const Field field =
      ignored("k", Kind::kText, "").one_of({{"WarmupLR"}, {"OneCycle"}, {"Old", KeyClass::kError}});
  CHECK(to_value(field, "warmuplr").json == "WarmupLR");
  CHECK(to_value(field, "WarmupRL").hint == "did you mean \"WarmupLR\"?");
  CHECK(to_value(field, "x").hint == "one of: WarmupLR, OneCycle");
  CHECK(to_value(field, 3).problem == "must be text in double quotes, not 3");
}

TEST_CASE("token files are a path, paths, weights before paths, or objects") {
  const Field field = used(
      "k", [](Config& c) -> Slot { return &c.data.train; }, "");
  const auto sources = [&](const Json& given) {
    const Value value = to_value(field, given);
    if (!value.problem.empty()) return std::string("refused");
    Config config;
    store(field.slot(config), value.json);
    return load(field, config).dump();
  };
  CHECK(sources("a") == R"(["a"])");
  CHECK(sources({"a", "b"}) == R"(["a","b"])");
  const std::string weighted = R"([{"path":"a","weight":0.3},{"path":"b","weight":0.7}])";
  CHECK(sources(parse_json<Json>(R"([0.3, "a", 0.7, "b"])")) == weighted);
  CHECK(sources(parse_json<Json>(R"(["0.3", "a", "0.7", "b"])")) == weighted);
  CHECK(sources(parse_json<Json>(weighted)) == weighted);
  CHECK(sources(parse_json<Json>(R"([{"path": "a", "weight": "0.5"}])")) ==
        R"([{"path":"a","weight":0.5}])");
  for (const char* wrong : {"[]", R"([{"path": "a", "weight": 1}, "b"])", R"([1])", "1",
                            R"([1, 2, "a"])", R"({"weight": 1})", R"([-1, "a"])", R"([""])",
                            R"([{"path": "a", "wieght": 1}])", R"([["a"]])"})
    CHECK(sources(parse_json<Json>(wrong)) == "refused");
}

TEST_CASE("the hint for a wrong choice names a valid one") {
  const Field field = ignored("k", Kind::kText, "")
                          .one_of({{"WarmupLR"},
                                   {"WarmupCosineLR"},
                                   {"CosineAnnealingLR", KeyClass::kNotBuilt, "use WarmupCosineLR"},
                                   {"Later", KeyClass::kNotBuilt}});
  const auto hint = [&](const char* word) { return to_value(field, word).hint; };
  CHECK(hint("WarmupLT") == "did you mean \"WarmupLR\"?");
  CHECK(hint("CosineAnnealing") == "use WarmupCosineLR");
  CHECK(hint("cosine") == "did you mean \"WarmupCosineLR\"?");
  CHECK(hint("Latre") == "one of: WarmupLR, WarmupCosineLR");
  CHECK(hint("x") == "one of: WarmupLR, WarmupCosineLR");
}
