#include "hgtrain/checkpoint/run_copy.h"

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/file_ops.h"

#include "copied_run.h"
#include "support/failing_file_ops.h"
#include "support/put_file.h"

using namespace hgt;

namespace {

void update(RunCopy& copy) {
  CopyProgress progress;
  copy.update(progress);
}

void update(RunCopy&& copy) {
  update(copy);
}

/// Counts the manifests that are read.
class ManifestReads final : public FileOps {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    count += std::string(path).ends_with(kManifestName) && (flags & O_ACCMODE) == O_RDONLY;
    return FileOps::open(path, flags, mode);
  }
  std::atomic<int> count = 0;
};

}  // namespace

TEST_CASE("a copy has the checkpoints of its run, and can be resumed") {
  CopiedRun of;
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  of.save(10);
  of.save(20);
  update(copy);
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000010", "step_00000020"});
  CHECK(of.run.holds(of.copy_dir + "/checkpoints/step_00000020", 20));
  CHECK(read_file(of.copy_dir + "/config.json", 100) == "{}\n");
  CHECK(read_file(of.copy_dir + "/metrics.jsonl", 100) == "{\"step\": 10}\n");
  of.save(30);
  update(copy);
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000020", "step_00000030"});

  of.run_dir = of.copy_dir;
  of.save(40);
  CHECK(newest_checkpoint(of.copy_dir)->step == 40);
}

TEST_CASE("an update does not look at checkpoints again that the copy had before") {
  CopiedRun of;
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  of.save(10);
  of.save(20);
  update(copy);
  ManifestReads reads;
  const FileOpsOverride override_ops(reads);
  update(copy);
  CHECK(reads.count == 0);
}

TEST_CASE("the copy of another run is refused, but not that of a run that went back") {
  CopiedRun one;
  one.save(10);
  one.save(20);
  update(RunCopy(one.run_dir, one.copy_dir));
  CopiedRun other;
  other.save(10);
  other.save(20);
  const Error error = error_of([&] { RunCopy(other.run_dir, one.copy_dir).open(); });
  CHECK(error.exit_code() == 2);
  CHECK_THAT(error.message(), Catch::Contains("is the copy of another run, " + one.run_dir));

  one.run.writer_from(one.run_dir + "/checkpoints/step_00000010", one.run_dir);
  RunCopy copy(one.run_dir, one.copy_dir);
  copy.open();
  one.save(15);
  update(copy);
  CHECK(one.copied() == std::vector<std::string>{"latest", "step_00000010", "step_00000015"});
}

TEST_CASE("a run goes on with a copy that has none of its checkpoints any more") {
  CopiedRun of;
  of.save(10);
  update(RunCopy(of.run_dir, of.copy_dir));
  for (const std::int64_t step : {20, 30, 40}) of.save(step);  // it keeps two
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  update(copy);
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000030", "step_00000040"});
}

TEST_CASE("of two runs that begin to copy to one folder at once, the first is told") {
  CopiedRun one;
  RunCopy first(one.run_dir, one.copy_dir);
  first.open();
  one.save(10);
  put_file(one.copy_dir + "/copy_of", "other on host\n1\n2");
  const Error error = error_of([&] { update(first); });
  CHECK(error.exit_code() == 4);
  CHECK_THAT(error.message(), Catch::Contains("another run, other on host, copies its"));
}

TEST_CASE("a copy in which a run was resumed is no copy any more") {
  CopiedRun of;
  of.save(10);
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  update(copy);
  of.save(20);
  RunCopy::begin_run_in(of.run_dir);  // it is no copy
  update(copy);
  RunCopy::begin_run_in(of.copy_dir);
  of.save(30);
  const Error told = error_of([&] { update(copy); });
  CHECK(told.exit_code() == 4);
  CHECK_THAT(told.message(), Catch::Contains("a run was resumed in it"));
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000010", "step_00000020"});
  const Error refused = error_of([&] { RunCopy(of.run_dir, of.copy_dir).open(); });
  CHECK(refused.exit_code() == 2);
  CHECK_THAT(refused.hint(), Catch::Contains("--run_dir " + of.copy_dir + " --resume auto"));
}

TEST_CASE("no copy is made anew where one was, because its disk may not be mounted") {
  CopiedRun of;
  of.save(10);
  RunCopy copy(of.run_dir, of.copy_dir);
  update(copy);
  for (const bool is_there : {false, true}) {
    std::filesystem::remove_all(of.copy_dir);
    if (is_there) make_folders(of.copy_dir);
    const Error refused = error_of([&] { RunCopy(of.run_dir, of.copy_dir + "/./").open(); });
    CHECK(refused.exit_code() == 2);
    CHECK_THAT(refused.message(), Catch::EndsWith(is_there ? "is empty" : "is not there"));
    CHECK_THAT(refused.hint(), Catch::Contains("mount its disk"));
    const Error told = error_of([&] { update(copy); });
    CHECK(told.exit_code() == 4);
    CHECK_THAT(told.message(), Catch::Contains("is its disk mounted?"));
    CHECK(path_exists(of.copy_dir) == is_there);
  }
  update(RunCopy(of.run_dir, of.copy_dir + "2"));
  update(RunCopy(of.run_dir, of.copy_dir + "2"));
}

TEST_CASE("a folder with other things gets no copy") {
  CopiedRun of;
  put_file(of.copy_dir + "/config.json", "mine");
  const Error error = error_of([&] { RunCopy(of.run_dir, of.copy_dir).open(); });
  CHECK(error.exit_code() == 2);
  CHECK_THAT(error.message(), Catch::Contains("neither empty nor the copy of a run"));
}

TEST_CASE("a folder for the copy that cannot be made is an error in the config") {
  CopiedRun of;
  put_file(of.folder / "far", "a file");
  const Error error = error_of([&] { RunCopy(of.run_dir, of.copy_dir).open(); });
  CHECK(error.exit_code() == 2);
  CHECK_THAT(error.hint(), Catch::Contains("checkpoint.copy_to"));
}

TEST_CASE(
    "wherever an update fails, each checkpoint of the copy is whole, and the next completes it") {
  int calls = -1, errors = 0;
  for (int fail_at = -1; fail_at < calls || fail_at < 0; ++fail_at) {
    CAPTURE(fail_at);
    CopiedRun of;
    RunCopy copy(of.run_dir, of.copy_dir);
    copy.open();
    of.save(10);
    of.save(20);
    update(copy);
    of.save(30);
    {
      FailingFileOps failing(fail_at, ENOSPC);
      const FileOpsOverride override_ops(failing);
      const Error error = error_of([&] { update(copy); });
      // To close a file that was only read may fail without harm.
      CHECK((error.kind() == ErrorKind::kData || error.message() == "(no error)"));
      errors += error.kind() == ErrorKind::kData;
      if (fail_at < 0) calls = failing.calls();
    }
    const auto folders = list_checkpoints(of.copy_dir);
    REQUIRE_FALSE(folders.empty());
    for (const std::string& path : folders)
      CHECK(of.run.holds(path, step_of(std::filesystem::path(path).filename().string())));
    update(copy);
    CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000020", "step_00000030"});
    CHECK(list_folder(of.copy_dir).size() == 4);
  }
  CHECK(errors > 30);
}
