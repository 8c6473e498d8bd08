#include "../../src/data/pre_tokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"

using namespace hgt;
using Catch::Contains;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

Words split(const std::string& pre_tokenizer, std::string_view text) {
  const PreTokenizer parsed(parse_json<json>(pre_tokenizer));
  const Pieces pieces = parsed.split(text);
  return {pieces.views.begin(), pieces.views.end()};
}

std::string split_step(const std::string& pattern, const std::string& behavior,
                       bool invert = false) {
  return json{{"type", "Split"},
              {"pattern", {{"Regex", pattern}}},
              {"behavior", behavior},
              {"invert", invert}}
      .dump();
}

}  // namespace

TEST_CASE("a split removes its matches, keeps them apart or joins them to what is beside them") {
  const std::string text = "a--b-c";
  CHECK(split(split_step("-", "Isolated"), text) == Words{"a", "-", "-", "b", "-", "c"});
  CHECK(split(split_step("-", "Removed"), text) == Words{"a", "b", "c"});
  CHECK(split(split_step("-", "Contiguous"), text) == Words{"a", "--", "b", "-", "c"});
  CHECK(split(split_step("-", "MergedWithPrevious"), text) == Words{"a-", "-", "b-", "c"});
  CHECK(split(split_step("-", "MergedWithNext"), text) == Words{"a", "-", "-b", "-c"});
  CHECK(split(split_step("[a-z]+", "Removed", true), text) == Words{"a", "b", "c"});
  CHECK_THROWS_WITH(split(split_step("-", "Sideways"), text), Contains("Sideways"));
}

TEST_CASE("ByteLevel splits text into GPT-2's words") {
  CHECK(split(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})",
              "I'll be  there,\n 42x") ==
        Words{"I", "'ll", " be", " ", " there", ",", "\n", " 42", "x"});
}

TEST_CASE("a space is put first if there is none") {
  const std::string step = R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false})";
  CHECK(split(step, "a b") == Words{" a b"});
  CHECK(split(step, " a") == Words{" a"});
}

TEST_CASE("digits are split off one by one or together") {
  CHECK(split(R"({"type": "Digits", "individual_digits": true})", "a12½") ==
        Words{"a", "1", "2", "½"});
  CHECK(split(R"({"type": "Digits", "individual_digits": false})", "a12b") ==
        Words{"a", "12", "b"});
}

TEST_CASE("steps follow each other; nothing may follow ByteLevel") {
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const auto sequence = [](const std::string& a, const std::string& b) {
    return R"({"type": "Sequence", "pretokenizers": [)" + a + "," + b + "]}";
  };
  CHECK(split(sequence(split_step(" ", "MergedWithNext"), byte_level), "a b") == Words{"a", " b"});
  CHECK(PreTokenizer(parse_json<json>(byte_level)).byte_level());
  CHECK_FALSE(PreTokenizer(json()).byte_level());
  CHECK_THROWS_WITH(split(sequence(byte_level, split_step(" ", "Isolated")), ""),
                    Contains("Split after ByteLevel"));
  CHECK_THROWS_WITH(split(R"({"type": "Metaspace"})", ""), Contains("Metaspace"));
}
