#include "../../src/data/decoder.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"

using namespace hgt;
using Catch::Contains;
using nlohmann::json;

TEST_CASE("a byte-level decoder spells letters as bytes") {
  for (const char* text :
       {R"({"type": "ByteLevel"})", R"({"type": "Sequence", "decoders": [{"type": "ByteLevel"}]})",
        "null"}) {
    const Decoder decoder = parse_decoder(parse_json<json>(text), true);
    CHECK(decoder.bytes_of_token("Ġaé") == " a\xE9");
    CHECK(decoder.bytes_of_token("a b") == "a b");  // a space is no letter of the alphabet
    CHECK(decoder.strip_count == 0);
  }
}

TEST_CASE("a sequence replaces, falls back to bytes and strips") {
  const Decoder decoder = parse_decoder(parse_json<json>(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})"),
                                        false);
  CHECK(decoder.bytes_of_token("▁a▁") == " a ");
  CHECK(decoder.bytes_of_token("<0xE9>") == "\xE9");
  CHECK(decoder.bytes_of_token("<0xZZ>") == "<0xZZ>");
  CHECK(decoder.strip == " ");
  CHECK(decoder.strip_count == 1);
  CHECK(parse_decoder(json(), false).bytes_of_token("Ġa") == "Ġa");
}

TEST_CASE("other decoders are refused by name") {
  const auto refuses = [](const char* text, const char* what) {
    CHECK_THROWS_WITH(parse_decoder(parse_json<json>(text), false), Contains(what));
  };
  refuses(R"({"type": "WordPiece"})", "WordPiece");
  refuses(R"({"type": "Replace", "pattern": {"Regex": "x"}, "content": ""})", "Replace");
  refuses(R"({"type": "Strip", "content": " ", "start": 0, "stop": 1})", "strips the end");
}
