#include "job_group.h"

#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher_process.h"

using namespace hgt;

TEST_CASE(
    "without a control group that may be written to, no group is made, and nothing is reported") {
  const TemporaryFolder root;
  CHECK(JobGroup(root.path()).path().empty());
  std::filesystem::create_directories(root / "proc/self");
  std::ofstream(root / "proc/self/cgroup") << "1:cpu:/\n0::/../elsewhere\n";
  CHECK(JobGroup(root.path()).path().empty());
  CHECK(JobGroup(root.path()).join_fd() == -1);
}

TEST_CASE("a group is removed when its job ends, and what is left in it is killed") {
  std::optional<JobGroup> group(std::in_place);
  const std::string path = group->path();
  if (path.empty()) {
    WARN("no control group can be made here");
    return;
  }
  CHECK(std::filesystem::exists(path));
  const pid_t child = fork();
  if (child == 0) {
    (void)!write(group->join_fd(), "0", 1);
    close_range(3, ~0u, 0);  // as a guard does: the keeper waits for the last copy of its stream
    for (;;) pause();
  }
  CHECK(
      eventually([&] { return contents(path + "/cgroup.procs") == std::to_string(child) + "\n"; }));
  group.reset();
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
}

TEST_CASE("nothing outlives a launcher and its guards that are killed together") {
  if (JobGroup().path().empty()) {
    WARN("no control group can be made here");
    return;
  }
  LauncherProcess launcher(
      {"--workers", "2", "--", "/bin/sh", "-c",
       "setsid sh -c 'trap \"\" TERM; echo stray=$$; exec sleep 1000' & "
       "grep -o 'hgtrain-.*' /proc/self/cgroup; echo pid=$$ guard=$PPID; wait"});
  REQUIRE(launcher.prints("stray=", 2));
  REQUIRE(launcher.prints("guard=", 2));
  CHECK(has(launcher.out(), "hgtrain-"));
  launcher.kill(SIGSTOP);  // so that it cannot act on the death of the guards
  for (const pid_t guard : launcher.numbers("guard")) kill(guard, SIGKILL);
  launcher.kill(SIGKILL);
  launcher.wait();
  CHECK(all_end(launcher.numbers("pid")));
  CHECK(all_end(launcher.numbers("stray")));
}
