#include "../../src/data/encode_unit.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;
using Catch::Contains;

namespace {

EncodedUnit encode(const TextUnit& unit, const std::string& field = "text", bool skip = false) {
  return encode_unit(unit, *Tokenizer::byte(), {256, field, skip});
}

EncodedUnit encode_lines(const std::string& lines, const std::string& field = "text",
                         bool skip = false) {
  const SourceFile file{"dir/x.jsonl", 0, true, false};
  return encode({{&file, lines, 10, true}}, field, skip);
}

std::string refusal_of_lines(const std::string& lines) {
  try {
    encode_lines(lines);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kData);
    return e.render();
  }
  return "";
}

}  // namespace

TEST_CASE(
    "documents end with end-of-text, pieces of a document do not, and empty ones are left out") {
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
  CHECK_THAT(refusal_of_lines("{\"text\": \"a\"}\n{\"text\": \n"),
             Contains("dir/x.jsonl:11") && Contains("not JSON") && Contains("--skip_bad_lines"));
}

TEST_CASE("bad lines are skipped and counted if that is asked for") {
  const EncodedUnit unit =
      encode_lines("{\"text\": \"a\"}\n[]\n{\"text\": \n{\"text\": \"b\"}", "text", true);
  CHECK(unit.tokens == std::vector<std::int32_t>{'a', 256, 'b', 256});
  CHECK(unit.bad_lines.count == 2);
  CHECK(unit.bad_lines.first == "dir/x.jsonl:11: the line is not a JSON object");
}

TEST_CASE("nothing more is encoded once nobody wants it") {
  const SourceFile lines{"x.jsonl", 0, true, false}, file{"x.txt", 0, false, false};
  std::atomic<bool> stop = true;
  const auto tokenizer = Tokenizer::byte();
  const auto encoded = [&](const TextUnit& unit) {
    return encode_unit(unit, *tokenizer, {.end_of_text = 256, .stop = &stop}).tokens.size();
  };
  const TextUnit texts = {{&file, "a", 1, true}, {&lines, "{\"text\": \"b\"}", 1, true}};
  CHECK(encoded(texts) == 0);
  stop = false;
  CHECK(encoded(texts) == 4);
}

TEST_CASE("documents begin and end with the tokenizer's special tokens, each once") {
  const TemporaryFolder folder;
  const auto encoded = [&](const char* post_processor, bool starts, bool ends) {
    write_file_atomically(folder / "tokenizer.json", R"({"model": {"type": "BPE", "vocab":
      {"a": 0, "<s>": 1, "</s>": 2, "[SEP]": 3}, "merges": []}, "post_processor": )" +
                                                         std::string(post_processor) + "}");
    const SourceFile file{"x.txt", 0, false, false};
    return encode_unit({{&file, "a", 1, ends, starts}},
                       *Tokenizer::from_json(folder / "tokenizer.json"), {.end_of_text = 2})
        .tokens;
  };
  using Ids = std::vector<std::int32_t>;
  const char* roberta = R"({"type": "RobertaProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2]})";
  CHECK(encoded("null", true, true) == Ids{0, 2});
  CHECK(encoded(roberta, true, true) == Ids{1, 0, 2});
  CHECK(encoded(roberta, true, false) == Ids{1, 0});
  CHECK(encoded(roberta, false, false) == Ids{0});
  CHECK(encoded(roberta, false, true) == Ids{0, 2});
  CHECK(encoded(R"({"type": "BertProcessing", "cls": ["<s>", 1], "sep": ["[SEP]", 3]})", true,
                true) == Ids{1, 0, 3, 2});
}
