#include "hgtrain/infer/text_stream.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("a character is shown when its last byte has come") {
  TextStream stream;
  std::string shown;
  for (const char byte : std::string("aß€😀")) {
    const std::string now = stream.add(std::string_view(&byte, 1));
    CHECK((now.empty() || now == "a" || now == "ß" || now == "€" || now == "😀"));
    shown += now;
  }
  CHECK(shown == "aß€😀");
  CHECK(stream.finish().empty());
}

TEST_CASE("an invalid byte becomes a replacement character, at once or at the end") {
  TextStream stream;
  CHECK(stream.add("\xff") == "\uFFFD");
  CHECK(stream.add("\x80z") == "\uFFFDz");
  CHECK(stream.add("\xe2\x82") == "");
  CHECK(stream.add("x") == "\uFFFDx");
  CHECK(stream.add("\xf0\x9f\x98") == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.finish() == "");
}
