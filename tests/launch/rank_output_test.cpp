#include "rank_output.h"

#include <algorithm>
#include <cerrno>

#include <catch2/catch.hpp>

#include "support/failing_file_ops.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

struct LoggedRank {
  explicit LoggedRank(RankOutput::Options options) : output(logs, std::move(options)) {}
  /// Waits until all is written.
  void finish() {
    bool is_done = false;
    output.finish([&] { is_done = true; });
    while (!is_done) io.run_one();
  }

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> other_work = asio::make_work_guard(io);
  WriterThread logs{io, [] {}};
  RankOutput output;
};

}  // namespace

TEST_CASE("the log has the lines of both streams whole, in the order they were finished") {
  const TemporaryFolder folder;
  LoggedRank rank({folder / "log", 0, nullptr});
  rank.output.feed(OutputSink::kOut, "first half, ");
  rank.output.feed(OutputSink::kErr, "an error\n");
  rank.output.feed(OutputSink::kOut, "second half\nrest");
  CHECK(eventually(
      [&] { return contents(folder / "log") == "an error\nfirst half, second half\n"; }));
  rank.finish();
  CHECK(contents(folder / "log") == "an error\nfirst half, second half\nrest\n");
  CHECK(rank.output.last_lines() ==
        std::vector<std::string>{"an error", "first half, second half", "rest"});
}

TEST_CASE("a log that is there already is continued; what waits is written even without an end") {
  const TemporaryFolder folder;
  for (int attempt = 0; attempt < 2; ++attempt)
    LoggedRank({folder / "log", 0, nullptr}).output.feed(OutputSink::kOut, "line\n");
  CHECK(contents(folder / "log") == "line\nline\n");
}

TEST_CASE("a log that cannot be opened is an error, with its name") {
  CHECK_THROWS_WITH(LoggedRank({"/nowhere/rank_0.log", 0, nullptr}),
                    Catch::Contains("/nowhere/rank_0.log"));
}

TEST_CASE(
    "a full disk under the log is reported once, and the output continues; later so does the log") {
  const TemporaryFolder folder;
  std::vector<std::string> notices;
  LoggedRank rank(
      {folder / "log", 0, nullptr, [&](const std::string& text) { notices.push_back(text); }});
  {
    FailingFileOps full(0, ENOSPC, /*for_good=*/true);
    const FileOpsOverride override(full);
    rank.output.feed(OutputSink::kOut, "a\n");
    rank.output.feed(OutputSink::kOut, "b\n");
    CHECK(eventually([&] { return full.calls() == 2; }));
  }
  rank.output.feed(OutputSink::kOut, "c\n");
  CHECK(rank.output.last_lines() == std::vector<std::string>{"a", "b", "c"});
  rank.finish();
  CHECK(contents(folder / "log") == "c\n");
  REQUIRE(notices.size() == 2);
  CHECK_THAT(notices[0], Catch::Contains("No space left on device"));
  CHECK(notices[1] == "4 bytes of output could not be written to " + folder / "log");
}

namespace {

/// A disk with room for so many bytes.
class SmallDisk final : public FileOps {
 public:
  explicit SmallDisk(std::size_t room) : room_(room) {}
  ssize_t write(int fd, const void* buffer, std::size_t bytes) override {
    const std::size_t fitting = std::min(bytes, room_);
    room_ -= fitting;
    if (fitting > 0) return FileOps::write(fd, buffer, fitting);
    errno = ENOSPC;
    return -1;
  }

 private:
  std::size_t room_;
};

}  // namespace

TEST_CASE("a log that a full disk has cut goes on in a new line, and what it lacks is counted") {
  const TemporaryFolder folder;
  std::vector<std::string> notices;
  LoggedRank rank(
      {folder / "log", 0, nullptr, [&](const std::string& text) { notices.push_back(text); }});
  SmallDisk disk(9);
  {
    const FileOpsOverride override(disk);
    rank.output.feed(OutputSink::kOut, "first\nsecond\n");
    CHECK(eventually([&] { return rank.io.poll() > 0; }));
  }
  rank.output.feed(OutputSink::kOut, "third\n");
  rank.finish();
  CHECK(contents(folder / "log") == "first\nsec\nthird\n");
  CHECK(notices.back() == "4 bytes of output could not be written to " + folder / "log");
}

TEST_CASE("output that is destroyed before its log is written reports nothing") {
  asio::io_context io;
  {
    WriterThread logs(io, [] {});
    RankOutput output(logs, {"", 0, nullptr});
    output.finish([] { FAIL("it is gone"); });
  }
  CHECK(io.run() == 1);
}
