// Every call that changes a file fails once, with a full disk or a broken one, for once or for
// good.

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"

#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"
#include "tiny_run.h"

using namespace hgt;

namespace {

/// Saves steps 10 and 20 of a run that keeps one checkpoint; from save 20 on, call `fail_at` fails.
/// Returns the calls of save 20.
int save_with_failure(const std::string& run_dir, TinyRun& run, int fail_at, int error_number,
                      bool for_good, std::optional<Error>& error) {
  const auto writer = run.writer(run_dir, 1, fail_at % 2 == 0);
  run.at(10);
  writer->save(run.state, run.flat());
  REQUIRE_FALSE(writer->wait());
  FailingFileOps failing(fail_at, error_number, for_good);
  const FileOpsOverride override_ops(failing);
  run.at(20);
  writer->save(run.state, run.flat());
  error = writer->wait();
  CHECK_FALSE(writer->poll_error());
  return failing.calls();
}

void check_every_failure(int error_number, bool for_good, const std::string& text) {
  std::optional<Error> error;
  TinyRun run;
  int calls = 0;
  {
    TemporaryFolder folder(TemporaryFolder::kMemory);
    calls = save_with_failure(folder.path(), run, -1, 0, false, error);
    REQUIRE_FALSE(error);
    REQUIRE(calls > 30);
  }
  for (int k = 0; k < calls; ++k) {
    CAPTURE(k);
    TemporaryFolder folder(TemporaryFolder::kMemory);
    save_with_failure(folder.path(), run, k, error_number, for_good, error);
    const auto folders = list_checkpoints(folder.path());
    REQUIRE_FALSE(folders.empty());
    for (const std::string& path : folders) CHECK(run.holds(path, path.ends_with("20") ? 20 : 10));
    if (error) {
      CHECK(error->exit_code() == 4);
      CHECK_THAT(error->message(),
                 Catch::Contains("checkpoint step_00000020 could not be written"));
      CHECK_THAT(error->message(), Catch::Contains(folder / "checkpoints"));
      CHECK_THAT(error->message(), Catch::Contains(text));
      CHECK(folders.back().ends_with("10"));
    } else {
      CHECK(folders.front().ends_with("20"));
    }

    // The disk works again: the run continues, and nothing of the failure stays.
    const auto writer = run.writer(folder.path(), 1);
    run.at(30);
    writer->save(run.state, run.flat());
    CHECK_FALSE(writer->wait());
    CHECK(list_folder(folder / "checkpoints") ==
          std::vector<std::string>{"latest", "step_00000030"});
  }
}

}  // namespace

TEST_CASE("a disk that is full for one call or from then on costs a save, never a checkpoint") {
  check_every_failure(ENOSPC, false, "No space left on device");
  check_every_failure(ENOSPC, true, "No space left on device");
}

TEST_CASE("an I/O error at any call costs a save, never a checkpoint") {
  check_every_failure(EIO, false, "Input/output error");
}

TEST_CASE("after a failed save the same writer saves the next step") {
  TemporaryFolder folder;
  TinyRun run;
  const auto writer = run.writer(folder.path(), 0, true);
  {
    FailingFileOps failing(3, ENOSPC);
    const FileOpsOverride override_ops(failing);
    run.at(1);
    writer->save(run.state, run.flat());
    const auto error = writer->wait();
    REQUIRE(error);
    CHECK_THAT(error->hint(), Catch::Contains("free some space"));
  }
  CHECK(list_folder(folder / "checkpoints") == std::vector<std::string>{"origin"});
  run.at(2);
  writer->save(run.state, run.flat());
  CHECK_FALSE(writer->wait());
  CHECK(run.holds(folder / "checkpoints/step_00000002", 2));
}

TEST_CASE("a branch that cannot begin leaves the run on the branch before, or begins later") {
  TinyRun run;
  bool failed = true;
  for (int k = 0; failed; ++k) {
    CAPTURE(k);
    const TemporaryFolder folder(TemporaryFolder::kMemory);
    const auto writer = run.writer(folder.path());
    for (const std::int64_t step : {10, 20}) {
      run.at(step);
      writer->save(run.state, run.flat());
    }
    const std::string ten = folder / "checkpoints/step_00000010";
    {
      FailingFileOps failing(k, EROFS, true);
      const FileOpsOverride override_ops(failing);
      const Error error = error_of([&] { run.writer_from(ten, folder.path()); });
      failed = error.kind() != ErrorKind::kInternal;
      if (failed) CHECK_THAT(error.message(), Catch::Contains("Read-only file system"));
    }
    const auto left = list_checkpoints(folder.path());
    CHECK((left.size() == 2 || left == std::vector<std::string>{ten}));
    run.writer_from(ten, folder.path());
    CHECK(list_checkpoints(folder.path()) == std::vector<std::string>{ten});
  }
}
