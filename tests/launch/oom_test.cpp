#include "oom.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE(
    "the counter of the nearest control group is read, of either version, else the machine's") {
  const TemporaryFolder root;
  CHECK_FALSE(oom_kills(root.path()));
  write(root / "proc/vmstat", "nr_free_pages 5\noom_kill 3\n");
  CHECK(oom_kills(root.path()) == 3);
  SECTION("version 2") {
    write(root / "proc/self/cgroup", "0::/job/1\n");
    CHECK(oom_kills(root.path()) == 3);
    write(root / "sys/fs/cgroup/job/1/memory.events", "low 0\noom 9\noom_kill 4\n");
    CHECK(oom_kills(root.path()) == 4);
  }
  SECTION("version 1") {
    write(root / "proc/self/cgroup", "5:cpu,cpuacct:/\n4:hugetlb,memory:/a:b\n0::/\n");
    write(root / "sys/fs/cgroup/memory/a:b/memory.oom_control", "under_oom 0\noom_kill 5\n");
    CHECK(oom_kills(root.path()) == 5);
  }
}
