#include "hgtrain/launch/job.h"

#include <nlohmann/json.hpp>

#include "process.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// A front with a job, in a folder of its own.
struct Front {
  explicit Front(std::vector<std::string> args)
      : process(command(std::move(args)), folder.path()) {}

  /// "VALUE" of each line "NAME=VALUE" that a rank printed, by that rank's prefix.
  std::string verdict_text() { return contents(folder / "verdict.json"); }
  nlohmann::json verdict() { return nlohmann::json::parse(verdict_text()); }

  TemporaryFolder folder;
  Process process;

 private:
  std::vector<std::string> command(std::vector<std::string> args) {
    args.insert(args.begin(), {LAUNCH_FRONT, "--verdict", folder / "verdict.json"});
    return args;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every rank runs with its own place in the environment, and its output is told apart") {
  Front front({"--workers", "3", "--", "/bin/sh", "-c",
               "echo $RANK/$LOCAL_RANK of $WORLD_SIZE; echo problem $RANK >&2"});
  CHECK(front.process.wait() == 0);
  for (const char* line : {"[r0] 0/0 of 3\n", "[r1] 1/1 of 3\n", "[r2] 2/2 of 3\n"})
    CHECK(has(front.process.out(), line));
  CHECK(has(front.process.err(), "[r2] problem 2\n"));
  CHECK_FALSE(has(front.process.out(), "problem"));
  CHECK(front.verdict()["outcome"] == "done");
}

TEST_CASE("arguments arrive as they were given") {
  const std::string odd = "a b\n\"c\" $HOME `id` 'd' \\ * ;\xff";
  Front front({"--", "/bin/sh", "-c", "printf '%s|' \"$@\"", "sh", odd, "", "--workers"});
  CHECK(front.process.wait() == 0);
  CHECK(front.process.out() == odd + "||--workers|");
}

TEST_CASE("workers of ours meet through the store") {
  Front front({"--own", "--workers", "3", "--", LAUNCH_PROBE, "meet"});
  CHECK(front.process.wait() == 0);
  for (const char* line : {"[r0] value of 2\n", "[r2] value of 0\n", "[r1] value of 1\n"})
    CHECK(has(front.process.out(), line));
}

TEST_CASE("the first failure is the verdict, and the others are stopped") {
  Front front({"--workers", "3", "--", "/bin/sh", "-c",
               "if [ $RANK = 1 ]; then echo last words; exit 7; fi; sleep 1000"});
  CHECK(front.process.wait() == 7);
  const auto failure = front.verdict()["first_failure"];
  CHECK(failure["rank"] == 1);
  CHECK(failure["stopped_ranks"] == 2);
  CHECK(failure["last_lines"] == nlohmann::json{"last words"});
  CHECK(has(front.process.err(), "exited with code 7"));
}
