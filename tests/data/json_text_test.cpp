#include "../../src/data/json_text.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;
using Catch::Contains;

namespace {

std::string refusal_of_line(const std::string& line) {
  const auto found = text_of_line(line, "text");
  const auto* error = std::get_if<Error>(&found);
  if (error == nullptr) return "";
  CHECK(error->kind() == ErrorKind::kData);
  return error->render();
}

std::string text_in(const std::string& line, const std::string& field) {
  return std::get<std::string>(text_of_line(line, field));
}

}  // namespace

TEST_CASE("the text is found among other fields") {
  CHECK(text_in(R"({"a": [{"text": "no"}], "text": "a\u00e9", "b": {"text": "no"}})", "text") ==
        "a\u00e9");
  CHECK(text_in(R"({"n": 1, "x": null, "y": true, "z": -1.5, "text": ""})", "text").empty());
  CHECK(text_in(R"({"text": "a", "text": "b"})", "text") == "b");  // as JSON parsers do
  CHECK(text_in(R"({"body": "x"})", "body") == "x");
}

TEST_CASE("a line that is not an object with a text is refused with the reason") {
  CHECK_THAT(refusal_of_line(R"({"text": )"), Contains("not JSON") && !Contains("exception"));
  CHECK_THAT(refusal_of_line("[\"text\", \"a\"]"), Contains("not a JSON object"));
  CHECK_THAT(refusal_of_line("\"text\""), Contains("not a JSON object"));
  CHECK_THAT(refusal_of_line(R"([{"text": "a"}])"), Contains("not a JSON object"));
  CHECK_THAT(refusal_of_line(R"({"text": "\ud800"})"), Contains("not JSON"));
  CHECK_THAT(refusal_of_line(R"({"body": "a", "n": 1})"),
             Contains("no text field \"text\"") && Contains("there is text in: body"));
  CHECK_THAT(refusal_of_line(R"({"text": 3})"), Contains("no text field"));
  CHECK_THAT(refusal_of_line(R"({"text": "a", "text": 3})"), Contains("no text field"));
  CHECK_THAT(refusal_of_line(R"({"text": 1e999})"), Contains("too large"));
  CHECK_THAT(refusal_of_line(std::string(100000, '[')), Contains("not JSON"));
}
