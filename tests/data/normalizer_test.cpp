#include "../../src/data/normalizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"

using namespace hgt;
using Catch::Contains;
using nlohmann::json;

namespace {
std::string apply(const char* normalizer, std::string_view text) {
  return parse_normalizer(parse_json<json>(normalizer))(text);
}
}  // namespace

TEST_CASE("normalizers bring text into the four Unicode forms") {
  CHECK(apply(R"({"type": "NFC"})", "e\u0301 \u212B") == "\u00E9 \u00C5");
  CHECK(apply(R"({"type": "NFD"})", "\u00E9") == "e\u0301");
  CHECK(apply(R"({"type": "NFKC"})", "\uFB01\u0301") == "f\u00ED");
  CHECK(apply(R"({"type": "NFKD"})", "\u00BD") == "1\u20442");
  CHECK(apply(R"({"type": "NFC"})", std::string_view("a\0b", 3)) == std::string_view("a\0b", 3));
}

TEST_CASE("marks that HF's tables do not know stay where they are") {
  // U+1DFA of Unicode 14 has class 218 and would change places with U+05BF of class 23.
  CHECK(apply(R"({"type": "NFC"})", "\u1DFA\u05BF") == "\u1DFA\u05BF");
  CHECK(apply(R"({"type": "NFC"})", "e\u0301\u1DFAe\u0301") == "\u00E9\u1DFA\u00E9");
}

TEST_CASE("prepend, replace and sequences of them") {
  CHECK(apply(R"({"type": "Prepend", "prepend": "_"})", "a") == "_a");
  CHECK(apply(R"({"type": "Prepend", "prepend": "_"})", "") == "");
  CHECK(apply(R"({"type": "Replace", "pattern": {"String": " "}, "content": "__"})", " a ") ==
        "__a__");
  CHECK(apply(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": "."})", "a \n b") ==
        "a.b");
  CHECK(apply(R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "x"},
                 {"type": "Replace", "pattern": {"String": "x"}, "content": "y"}]})",
              "xa") == "yya");
  CHECK_FALSE(parse_normalizer(json()));
}

TEST_CASE("only NFC leaves line ends and the characters next to them alone") {
  CHECK(normalizer_is_local(json()));
  CHECK(normalizer_is_local(
      parse_json<json>(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})")));
  CHECK_FALSE(normalizer_is_local(parse_json<json>(R"({"type": "Prepend", "prepend": "x"})")));
}

TEST_CASE("other normalizers are refused by name") {
  CHECK_THROWS_WITH(parse_normalizer(json{{"type", "Lowercase"}}), Contains("Lowercase"));
}
