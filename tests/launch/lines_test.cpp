#include "lines.h"

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// What a console shows of `reads` of one stream, with "> " as the prefix.
std::string prefixed(const std::vector<std::string>& reads) {
  LineCutter cutter;
  std::string out;
  const auto sink = [&](const Piece& piece) {
    if (!piece.continues) out += "> ";
    out += piece.text;
  };
  for (const std::string& bytes : reads) cutter.feed(bytes, sink);
  cutter.finish(sink);
  return out;
}

std::vector<std::string> last_lines(const std::string& text) {
  LineCutter cutter;
  LastLines last;
  const auto sink = [&](const Piece& piece) { last.add(piece); };
  cutter.feed(text, sink);
  cutter.finish(sink);
  return last.lines();
}

}  // namespace

TEST_CASE("lines, progress lines and the last line without an end each get the prefix once") {
  CHECK(prefixed({"first\rsecond\nmore"}) == "> first\r> second\n> more\n");
  CHECK(prefixed({"a\n\nb\n"}) == "> a\n> \n> b\n");
  CHECK(prefixed({"dos\r\nline\r\n"}) == "> dos\r\n> line\r\n");
  CHECK(prefixed({"dos\r", "\nline\r", "\n"}) == "> dos\r\n> line\r\n");
  CHECK(prefixed({"50%\r", "100%\r"}) == "> 50%\r> 100%\r\n");
  CHECK(prefixed({}) == "");
}

TEST_CASE("text that two reads split is put together again") {
  const std::string text = "grüße 世界\nüber\n";
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  CHECK(prefixed(bytes) == "> grüße 世界\n> über\n");
}

TEST_CASE(
    "a line without end is passed on in parts, never through a character, and held no longer") {
  LineCutter cutter;
  std::string out;
  std::size_t longest = 0;
  const auto sink = [&](const Piece& piece) {
    CHECK(piece.continues == !out.empty());
    CHECK((static_cast<unsigned char>(piece.text[0]) & 0xC0) != 0x80);
    longest = std::max(longest, piece.text.size());
    out += piece.text;
  };
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "世";
  for (std::size_t i = 0; i < text.size(); i += 4096) cutter.feed(text.substr(i, 4096), sink);
  CHECK(out.size() + LineCutter::kMaxPieceBytes >= text.size());
  cutter.finish(sink);
  CHECK(out == text + "\n");
  CHECK(longest <= LineCutter::kMaxPieceBytes + 1);
}

TEST_CASE("the last lines are the last ones, long ones cut, progress lines only the latest") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  const auto lines = last_lines(text);
  REQUIRE(lines.size() == LastLines::kLines);
  CHECK(lines.front() == "line 80");
  CHECK(lines.back() == "line 99");
  CHECK(last_lines("start\n10%\r50%\r100%\ndone") ==
        std::vector<std::string>{"start", "100%", "done"});
  CHECK(last_lines("a\r\nb\r\n") == std::vector<std::string>{"a", "b"});
  CHECK(last_lines(std::string(300'000, 'x') + "\nnext\n") ==
        std::vector<std::string>{std::string(LastLines::kMaxLineBytes, 'x'), "next"});
}

TEST_CASE("in brief a log is its last three lines, each cut between characters") {
  const std::string wide = std::string(159, 'x') + "\u00e9";
  CHECK(brief({"a", "b", wide + "y", "c"}) ==
        std::vector<std::string>{"b", std::string(159, 'x') + " ...", "c"});
  CHECK(brief({}).empty());
}
