#include "document.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

Document read(const std::string& text) {
  return read_document(text, "f.json");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    return e.message();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("JSON may have comments, trailing commas and a byte order mark") {
  const Document d = read(
      "\xEF\xBB\xBF# one\n{ // two\n \"a\": [1, 2.5, /* three\n */ true,],\n \"b\": {\"c\": "
      "null,},\n}\n");
  CHECK(d.root == Json({{"a", {1, 2.5, true}}, {"b", {{"c", nullptr}}}}));
  CHECK(d.lines.at("") == 2);
  CHECK(d.lines.at("/a") == 3);
  CHECK(d.lines.at("/a/2") == 4);
  CHECK(d.lines.at("/b/c") == 5);
  CHECK(read("[\"# no // comment\"]").root[0] == "# no // comment");
}

TEST_CASE("the line of a key is that of its name") {
  CHECK(read("{\n\"a\":\n\n1}").lines.at("/a") == 2);
  CHECK(read(R"({"a/b": 1, "~": 2})").lines.count("/a~1b") == 1);
}

TEST_CASE("numbers keep their kind; what int64 cannot hold becomes a double") {
  CHECK(read("5").root.is_number_integer());
  CHECK(read("-0.5e-3").root == -0.5e-3);
  CHECK(read("2e8").root.is_number_float());
  CHECK(read("9223372036854775807").root == INT64_MAX);
  CHECK(read("9223372036854775808").root == 9223372036854775808.0);
  CHECK(std::isinf(read("Infinity").root.get<double>()));
  CHECK(read("-Infinity").root.get<double>() < 0);
  CHECK(std::isnan(read("NaN").root.get<double>()));
  CHECK(read("1e999").root.get<double>() > 1e300);
  CHECK(read("1e-999").root == 0.0);
}

TEST_CASE("strings may have escapes, surrogate pairs and UTF-8") {
  CHECK(read(R"("\"\\\/\b\f\n\r\t")").root == "\"\\/\b\f\n\r\t");
  CHECK(read(R"("\u00e9\u20ac\ud83d\ude00")").root == "é€😀");
  CHECK(read("\"é😀\"").root == "é😀");
}

TEST_CASE("every pair of duplicate keys is found, at any depth") {
  const Document d = read("{\"a\": 1,\n\"b\": {\"c\": 1,\n\n\"c\": 1},\n\"a\": 2}");
  REQUIRE(d.duplicates.size() == 2);
  CHECK(d.duplicates[0].pointer == "/b/c");
  CHECK(d.duplicates[0].first_line == 2);
  CHECK(d.duplicates[0].line == 4);
  CHECK(d.duplicates[1].pointer == "/a");
  CHECK(d.root["a"] == 1);
}

TEST_CASE("what is not JSON is refused with line and column") {
  CHECK(refusal("{\n  \"a\": tru\n}") == "f.json:2:8: 'tru' is not a value");
  CHECK(refusal("{lr: 1}") == "f.json:1:2: expected a key in double quotes");
  CHECK(refusal("{'lr': 1}") == "f.json:1:2: expected a key in double quotes");
  CHECK(refusal("{\"a\" 1}") == "f.json:1:6: expected ':' after the key \"a\"");
  CHECK(refusal("{\"a\": 1 \"b\": 2}") == "f.json:1:9: expected ',' or '}'");
  CHECK(refusal("{\"a\": 1,, }") == "f.json:1:9: a comma too many");
  CHECK(refusal("{\"a\": 1") == "f.json:1:8: the text ends, but a '}' is missing");
  CHECK(refusal("{") == "f.json:1:2: the text ends inside an object");
  CHECK(refusal("") == "f.json:1:1: the text is empty");
  CHECK(refusal("{} {}") == "f.json:1:4: there is text after the end of the value");
  CHECK(refusal("/* ") == "f.json:1:1: a comment is not closed");
  CHECK(refusal("\"abc\n\"") == "f.json:1:5: a string is not closed on its line");
  CHECK(refusal("\"a\tb\"") == "f.json:1:3: a control character in a string");
  CHECK(refusal("\"\\x\"") == "f.json:1:2: unknown escape in a string");
  CHECK(refusal("\"\\u12\"") == "f.json:1:2: unknown escape in a string");
  CHECK(refusal("\"\\ud800\"") == "f.json:1:8: unknown escape in a string");
  CHECK(refusal("\"\\ud800\\u0041\"") == "f.json:1:14: half a surrogate pair");
  CHECK(refusal("\"\\udc00\"") == "f.json:1:8: half a surrogate pair");
  for (const char* number : {"01", "+1", "1.", ".5", "0x10", "1e", "--1", "1_000", "-"})
    CHECK(refusal(number).find("is not a value") != std::string::npos);
}

TEST_CASE("the hint for a word of Python or a number of another language is its JSON form") {
  const std::pair<const char*, const char*> words[] = {{"True", "write true"},
                                                       {"None", "write null"},
                                                       {".001", "write 0.001"},
                                                       {"1.", "write 1.0"},
                                                       {"+1e-4", "write 1e-4"},
                                                       {"-.5", "write -0.5"},
                                                       {"1_000", "write 1000"},
                                                       {"007", "write 7"},
                                                       {"1.e5", "write 1.0e5"},
                                                       {"inf", "write Infinity"},
                                                       {"nan", "write NaN"},
                                                       {"cpu", "write a string in double quotes"},
                                                       {"0x10", "write a string in double quotes"}};
  for (const auto& [word, hint] : words) {
    INFO(word);
    try {
      read_document(word, "f.json");
      FAIL("was read");
    } catch (const Error& e) {
      CHECK(e.hint() == hint);
    }
  }
}

TEST_CASE("bytes that are not UTF-8 are refused") {
  for (const char* text : {"\"\xff\"", "\"\xc0\x80\"", "\"\xe2\x82\"", "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"", "\"\xe0\x80\x80\"", "\"\x80\""})
    CHECK(refusal(text) == "f.json:1:2: not UTF-8");
}

TEST_CASE("UTF-16 is recognised by its byte order mark and refused") {
  for (const char* text : {"\xff\xfe{", "\xfe\xff"})
    CHECK(refusal(text) == "f.json:1:1: the text is UTF-16");
}

TEST_CASE("a number too large for a double is infinite") {
  CHECK(std::isinf(read_document("1e400", "f.json").root.get<double>()));
  CHECK(read_document("1e-400", "f.json").root == 0.0);
}

TEST_CASE("a key given three times on a line is two duplicates, and keys below it are none") {
  CHECK(read_document(R"({"a": {"x": 1}, "a": {"x": 1}, "a": {"x": 1}})", "f").duplicates.size() ==
        2);
}

TEST_CASE("nesting has a limit") {
  CHECK(refusal(std::string(100, '[') + std::string(100, ']')) == "accepted");
  CHECK(refusal(std::string(100000, '[')).find("nest deeper than 100") != std::string::npos);
}
