#include "job_view.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/config/run_checkpoints.h"

#include "launched_run.h"
#include "support/failing_file_ops.h"
#include "support/standing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a run that goes back is on the older checkpoint at once, whatever happens to the job") {
  const TemporaryFolder folder;
  const auto checkpoint = [&](std::int64_t step) {
    return folder / ("checkpoints/" + step_name(step));
  };
  for (const std::int64_t step : {1, 2}) {
    std::filesystem::create_directories(checkpoint(step));
    std::ofstream(checkpoint(step) + "/manifest.json") << "{}";
  }
  JobView view(folder.path(), true, new_run_file(), {}, {}, {});
  CHECK(newest_checkpoint(folder.path())->step == 2);
  view.event(-1, "goes_back", {{"checkpoint", checkpoint(1)}});
  CHECK(view.goes_back_to() == checkpoint(1));
  CHECK(newest_checkpoint(folder.path())->step == 1);
  view.event(0, "started", {{"step", 1}, {"from", checkpoint(1)}, {"begins", true}});
  CHECK(view.goes_back_to().empty());
}

TEST_CASE(
    "if the checkpoint to go back to is gone, the run is on none of the later ones, and no line "
    "says how to resume it") {
  const TemporaryFolder folder;
  const auto checkpoint = [&](std::int64_t step) {
    return folder / ("checkpoints/" + step_name(step));
  };
  std::filesystem::create_directories(checkpoint(2));
  std::ofstream(checkpoint(2) + "/manifest.json") << "{}";
  JobView view(folder.path(), true, new_run_file(), {}, {}, {});
  view.event(0, "started", {{"step", 1}, {"from", checkpoint(1)}, {"begins", true}});
  view.event(-1, "goes_back", {{"checkpoint", checkpoint(1)}});
  CHECK_FALSE(newest_checkpoint(folder.path()));
  CHECK(read_origin(folder.path())->checkpoint == step_name(1));
  Verdict lost;
  lost.outcome = Verdict::Outcome::kFailed;
  view.finish(lost);
  const std::string log = read_file(folder / "logs/console.log", 1 << 20);
  CHECK_THAT(log, Catch::Contains("what was trained since " + checkpoint(1) + " is worth nothing"));
  CHECK_THAT(log, !Catch::Contains("--resume"));
}

TEST_CASE("a disk that stands still delays no event, and gets all lines later") {
  const TemporaryFolder folder;
  StandingFileOps disk;
  {
    JobView view(folder.path(), false, new_run_file(), {}, {}, {});
    const FileOpsOverride override(disk);
    view.event(0, "started", {{"step", 0}, {"from", ""}, {"begins", true}});
    view.event(0, "notice", {{"text", "a line"}});
    disk.go_on();
  }
  CHECK_THAT(read_file(folder / "logs/console.log", 1 << 20), Catch::Contains("a line\n"));
  CHECK(std::filesystem::exists(folder / "run.json"));
}

TEST_CASE("a console log that cannot be written is reported once, and the job continues") {
  const TemporaryFolder folder;
  std::string shown;
  Console::Options options;
  options.copy = [&](std::string_view line) { shown += line; };
  JobView view(folder.path(), false, new_run_file(), {}, options, {});
  {
    FailingFileOps full(0, ENOSPC, /*for_good=*/true);
    const FileOpsOverride override(full);
    view.print("one");
    view.print("two");
    view.cannot_start(Error(ErrorKind::kData, "no disk"));
  }
  CHECK_THAT(shown,
             Catch::Contains("one\ntwo\n") &&
                 Catch::Contains("the console log can no longer be written, and ends here\n"));
  const std::size_t first = shown.find("the console log");
  CHECK(shown.find("the console log", first + 1) == std::string::npos);
}
