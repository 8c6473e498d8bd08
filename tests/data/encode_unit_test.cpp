#include "../../src/data/encode_unit.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;
using Catch::Contains;

namespace {

EncodedUnit encode(const TextUnit& unit, const std::string& field = "text") {
  return encode_unit(unit, *Tokenizer::byte(), 256, field);
}

EncodedUnit encode_lines(const std::string& lines, const std::string& field = "text") {
  const SourceFile file{"dir/x.jsonl", 0, true, false};
  return encode({{&file, lines, 10, true}}, field);
}

std::string refusal(const std::string& lines) {
  try {
    encode_lines(lines);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kData);
    return e.render();
  }
  return "";
}

}  // namespace

TEST_CASE("documents end with end-of-text, pieces of one do not, empty ones are left out") {
  const SourceFile file{"x.txt", 0, false, false};
  const EncodedUnit unit =
      encode({{&file, "ab", 1, true}, {&file, "", 1, true}, {&file, "c", 1, false}});
  CHECK(unit.tokens == std::vector<std::int32_t>{'a', 'b', 256, 'c'});
  CHECK(unit.ends == std::vector<std::size_t>{3});
  CHECK(unit.empty_documents == 1);
}

TEST_CASE("each line of JSON is a document, blank lines are none") {
  const EncodedUnit unit = encode_lines(
      "{\"text\": \"a\\u00e9\"}\r\n \t\n{\"n\": {}, \"text\": \"\"}\n"
      "{\"text\": \"b\", \"text2\": 0}");
  CHECK(unit.tokens == std::vector<std::int32_t>{'a', 0xC3, 0xA9, 256, 'b', 256});
  CHECK(unit.ends == std::vector<std::size_t>{4, 6});
  CHECK(unit.empty_documents == 1);
  CHECK(encode_lines("{\"body\": \"x\"}", "body").tokens == std::vector<std::int32_t>{'x', 256});
  CHECK(encode_lines("{\"text\": \"\xFF\"}").tokens ==  // no UTF-8: read as U+FFFD
        std::vector<std::int32_t>{0xEF, 0xBF, 0xBD, 256});
}

TEST_CASE("a line that is not as it should be is named by file and line") {
  CHECK_THAT(refusal("{\"text\": \"a\"}\n{\"text\": \n"),
             Contains("dir/x.jsonl:11") && Contains("no JSON") && !Contains("exception"));
  CHECK_THAT(refusal("\n\n[1]"), Contains("dir/x.jsonl:12") && Contains("no JSON object"));
  CHECK_THAT(refusal("{\"text\": \"\\ud800\"}"), Contains("dir/x.jsonl:10"));
  CHECK_THAT(refusal("{\"body\": \"a\", \"n\": 1}"),
             Contains("no text in a field \"text\"") && Contains("there is text in: body"));
  CHECK_THAT(refusal("{\"text\": 3}"), Contains("no text in a field"));
  CHECK_THAT(refusal("{\"text\": 1e999}"), Contains("dir/x.jsonl:10") && Contains("too large"));
}
