#include "merged_output.h"

#include <random>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

/// What is shown of the output of some ranks.
struct Shown {
  explicit Shown(int world_size, const std::string& ranks = "all")
      : output(io, {[this](OutputSink::Stream stream, std::string_view piece) {
                      text[stream] += piece;
                      writes += stream == OutputSink::kOut;
                    },
                    [this] { return is_full; }}) {
    output.begin(RankSet::parse(ranks), world_size);
  }
  void print(int rank, std::string_view line) { output.write(rank, OutputSink::kOut, line); }
  const std::string& out() const { return text[OutputSink::kOut]; }

  asio::io_context io;
  std::array<std::string, 2> text;
  int writes = 0;
  bool is_full = false;
  MergedOutput output;
};

}  // namespace

TEST_CASE("the output of a job of one rank is passed on as it comes") {
  Shown shown(1);
  shown.print(0, "no end");
  CHECK(shown.out() == "no end");
  shown.output.end(0);
  CHECK(shown.out() == "no end");
}

TEST_CASE("a line that all ranks print is shown once, as soon as the last has printed it") {
  Shown shown(4);
  for (const int rank : {2, 0, 3}) shown.print(rank, "ready\n");
  CHECK(shown.out().empty());
  shown.print(1, "rea");
  CHECK(shown.out().empty());
  shown.print(1, "dy\n");
  CHECK(shown.out() == "[ranks 0-3] ready\n");
}

TEST_CASE("lines wait for those of other ranks for a bounded time") {
  Shown shown(4);
  for (const int rank : {0, 1, 3}) shown.print(rank, "ready\n");
  shown.print(2, "late\n");
  CHECK(shown.out().empty());
  shown.io.run();  // until no timer is left
  CHECK(shown.out() == "[ranks 0-1,3] ready\n[r2] late\n");
}

TEST_CASE("only ranks that are shown and have not ended are waited for") {
  Shown shown(8, "0,3");
  shown.print(0, "a\n");
  CHECK(shown.out().empty());
  shown.print(3, "a\n");
  CHECK(shown.out() == "[ranks 0,3] a\n");
  shown.output.end(3);
  shown.print(0, "b\n");
  CHECK(shown.out() == "[ranks 0,3] a\n[r0] b\n");
}

TEST_CASE("lines of different streams are different, and keep to their streams") {
  Shown shown(2);
  shown.print(0, "x\n");
  shown.output.write(1, OutputSink::kErr, "x\n");
  shown.output.flush();
  CHECK(shown.out() == "[r0] x\n");
  CHECK(shown.text[OutputSink::kErr] == "[r1] x\n");
}

TEST_CASE("what ranks print one by one does not keep them from printing the rest together") {
  Shown shown(3);
  for (const int rank : {0, 2, 1}) shown.print(rank, fmt::format("I am {}\nready\n", rank));
  CHECK(shown.out().empty());
  shown.io.run();
  CHECK(shown.out() == "[r0] I am 0\n[r2] I am 2\n[r1] I am 1\n[ranks 0-2] ready\n");
}

TEST_CASE("a rank that repeats a line is shown as often as it printed it") {
  Shown shown(2);
  shown.print(0, "x\nx\n");
  shown.print(1, "x\nx\nx\n");
  shown.output.flush();
  CHECK(shown.out() == "[ranks 0-1] x\n[ranks 0-1] x\n[r1] x\n");
}

TEST_CASE("a line without an end is shown when its rank has ended") {
  Shown shown(2);
  shown.print(0, "the end");
  shown.output.end(0);
  shown.output.flush();
  CHECK(shown.out() == "[r0] the end\n");
}

TEST_CASE("no line of another rank gets into a line that is too long to be held") {
  Shown shown(2);
  const std::string part(LineCutter::kMaxPieceBytes, 'x');
  shown.print(0, part + "yy");
  shown.output.begin(RankSet::all(), 2);  // shows all that waits
  CHECK(shown.out() == "[r0] " + part + "yy\n");
  Shown mixed(2);
  mixed.print(0, part + "y");
  mixed.io.run();
  mixed.print(1, "z\n");
  mixed.io.restart();
  mixed.io.run();
  mixed.print(0, "\n");
  mixed.output.flush();
  CHECK(mixed.out() == "[r0] " + part + "\n[r1] z\n[r0] y\n");
}

TEST_CASE("a progress line stays one, and its newline has no prefix") {
  Shown shown(2, "0");
  shown.print(0, "10%\r20%\r");
  shown.print(0, "\nnext\n");
  CHECK(shown.out() == "[r0] 10%\r[r0] 20%\r\n[r0] next\n");
}

TEST_CASE("no more than a bound waits, however much is printed") {
  Shown shown(2);
  std::size_t printed = 0;
  for (int i = 0; printed < 2 * MergedOutput::kMaxWaitingBytes; ++i) {
    const std::string line = fmt::format("line {}\n", i);
    printed += line.size();
    shown.print(0, line);
  }
  CHECK(shown.out().size() + MergedOutput::kMaxWaitingBytes > printed);
}

TEST_CASE("whatever ranks print, no line is lost and each rank's lines keep their order") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int world = 2 + static_cast<int>(random() % 4);
    Shown shown(world);
    std::vector<std::string> printed(static_cast<std::size_t>(world));
    for (int i = 0; i < 60; ++i) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(world));
      const std::string line(1, static_cast<char>('a' + random() % 3));
      shown.print(rank, line + "\n");
      printed[static_cast<std::size_t>(rank)] += line;
    }
    shown.output.flush();
    std::vector<std::string> seen(static_cast<std::size_t>(world));
    for (std::size_t at = 0; at < shown.out().size();) {
      const std::size_t end = shown.out().find('\n', at);
      const std::string line = shown.out().substr(at, end - at);
      at = end + 1;
      const std::size_t close = line.find("] ");
      const std::string ranks = line.substr(line[1] == 'r' && line[2] != 'a' ? 2 : 7);
      const RankSet who = RankSet::parse(ranks.substr(0, ranks.find(']')));
      for (int rank = 0; rank < world; ++rank)
        if (who.has(rank)) seen[static_cast<std::size_t>(rank)] += line.substr(close + 2);
    }
    REQUIRE(seen == printed);
  }
}

TEST_CASE(
    "a console that is full holds the ranks back, and a rank that does not exist is refused") {
  Shown shown(2);
  CHECK_FALSE(shown.output.is_full());
  shown.is_full = true;
  CHECK(shown.output.is_full());
  CHECK_THROWS_WITH(shown.print(2, "x\n"), Catch::Contains("rank 2"));
}
