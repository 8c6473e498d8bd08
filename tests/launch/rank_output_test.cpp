#include "rank_output.h"

#include <catch2/catch.hpp>

#include "support/failing_file_ops.h"
#include "support/process.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("the log has the lines of both streams whole, in the order they were finished") {
  const TemporaryFolder folder;
  RankOutput output({folder / "log", 0, nullptr, {}});
  output.feed(OutputSink::kOut, "first half, ");
  output.feed(OutputSink::kErr, "an error\n");
  output.feed(OutputSink::kOut, "second half\nrest");
  CHECK(contents(folder / "log") == "an error\nfirst half, second half\n");
  output.finish();
  CHECK(contents(folder / "log") == "an error\nfirst half, second half\nrest\n");
  CHECK(output.last_lines() ==
        std::vector<std::string>{"an error", "first half, second half", "rest"});
}

TEST_CASE("a log that is there already is continued") {
  const TemporaryFolder folder;
  for (int attempt = 0; attempt < 2; ++attempt)
    RankOutput({folder / "log", 0, nullptr, {}}).feed(OutputSink::kOut, "line\n");
  CHECK(contents(folder / "log") == "line\nline\n");
}

TEST_CASE("a log that cannot be opened is an error, with its name") {
  CHECK_THROWS_WITH(RankOutput({"/nowhere/rank_0.log", 0, nullptr, {}}),
                    Catch::Contains("/nowhere/rank_0.log"));
}

TEST_CASE(
    "a full disk under the log is reported once, and the output continues; later so does the log") {
  const TemporaryFolder folder;
  std::vector<std::string> notices;
  RankOutput output(
      {folder / "log", 0, nullptr, [&](const std::string& text) { notices.push_back(text); }});
  {
    FailingFileOps full(0, ENOSPC, /*for_good=*/true);
    const FileOpsOverride override(full);
    output.feed(OutputSink::kOut, "a\n");
    output.feed(OutputSink::kOut, "b\n");
  }
  output.feed(OutputSink::kOut, "c\n");
  REQUIRE(notices.size() == 1);
  CHECK_THAT(notices[0], Catch::Contains("No space left on device"));
  CHECK(contents(folder / "log") == "c\n");
  CHECK(output.last_lines() == std::vector<std::string>{"a", "b", "c"});
  output.finish();
  CHECK(notices.back() == "4 bytes of output could not be written to " + folder / "log");
}
