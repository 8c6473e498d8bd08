#include "hgtrain/checkpoint/run_copier.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/file_ops.h"

#include "copied_run.h"

using namespace hgt;
using namespace std::chrono_literals;

namespace {

/// A disk whose writes do not return while it is frozen. The run itself is not on it.
class FrozenDisk : public FileOps {
 public:
  explicit FrozenDisk(std::string folder) : folder_(std::move(folder)) {}

  int open(const char* path, int flags, mode_t mode) override {
    if (std::string(path).starts_with(folder_) && (flags & O_CREAT) != 0) {
      waits_ = true;
      waits_.notify_all();
      thawed_.wait(false);
    }
    return FileOps::open(path, flags, mode);
  }
  void thaw() {
    thawed_ = true;
    thawed_.notify_all();
  }
  void wait_until_used() { waits_.wait(false); }

 private:
  const std::string folder_;
  std::atomic<bool> waits_ = false, thawed_ = false;
};

/// Of a copier, from any thread.
struct Notices {
  void add(const std::string& text) {
    const std::lock_guard lock(mutex);
    texts.push_back(text);
  }
  std::mutex mutex;
  std::vector<std::string> texts;
};

}  // namespace

TEST_CASE("a run is saved and pruned while the disk of its copy stands still") {
  CopiedRun of;
  Notices notices;
  std::atomic<std::uint64_t> progress{0};
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  FrozenDisk disk(of.copy_dir);
  const FileOpsOverride override_ops(disk);
  RunCopier copier(std::move(copy), [&](const std::string& text) { notices.add(text); });
  of.save(10);
  copier.saved();
  disk.wait_until_used();
  for (const std::int64_t step : {20, 30, 40}) {
    of.save(step);
    copier.saved();
  }
  CHECK(copier.finish(0ms, progress) == "the disk has stood still for 0 s");

  disk.thaw();
  CHECK(copier.finish(1h, progress) == "");
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000030", "step_00000040"});
  CHECK(read_file(of.copy_dir + "/checkpoints/latest", 100) == "step_00000040\n");
  REQUIRE(notices.texts.size() == 1);
  CHECK_THAT(notices.texts[0], Catch::Contains("the previous checkpoint is still being copied"));
}

TEST_CASE("a copy that takes longer than several saves gets a checkpoint with each update") {
  CopiedRun of;
  Notices notices;
  std::atomic<std::uint64_t> progress{0};
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  FrozenDisk disk(of.copy_dir + "/checkpoints/");
  const FileOpsOverride override_ops(disk);
  RunCopier copier(std::move(copy), [&](const std::string& text) { notices.add(text); });
  of.run.is_in_use = [&](std::int64_t step) { return copier.is_copying(step); };
  of.save(10);
  copier.saved();
  disk.wait_until_used();
  CHECK(copier.is_copying(10));
  for (const std::int64_t step : {20, 30, 40}) of.save(step);
  CHECK(list_checkpoints(of.run_dir).size() == 3);  // it would keep two
  disk.thaw();
  CHECK(copier.finish(1h, progress) == "");
  CHECK(of.run.holds(of.copy_dir + "/checkpoints/step_00000010", 10));
  CHECK_FALSE(copier.is_copying(10));
}

TEST_CASE("a copy that fails is told, and completed after the next save") {
  CopiedRun of;
  Notices notices;
  std::atomic<std::uint64_t> progress{0};
  RunCopy copy(of.run_dir, of.copy_dir);
  copy.open();
  RunCopier copier(std::move(copy), [&](const std::string& text) { notices.add(text); });
  of.save(10);
  const std::string disk = of.folder / "far", lost = of.folder / "lost";
  rename_path(disk, lost);
  put_file(disk, "not a folder");
  copier.saved();
  CHECK_THAT(copier.finish(1h, progress), Catch::Contains(of.copy_dir));
  REQUIRE(notices.texts.size() == 1);
  CHECK_THAT(notices.texts[0], Catch::Contains("lacks what was saved last, until the next save"));

  remove_file(disk);
  rename_path(lost, disk);
  copier.saved();
  CHECK(copier.finish(1h, progress) == "");
  CHECK(of.copied() == std::vector<std::string>{"latest", "step_00000010"});
}
