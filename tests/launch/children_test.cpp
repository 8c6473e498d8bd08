#include "children.h"

#include <sys/resource.h>

#include "stopped_tracer.h"
#include "support/process.h"

using namespace hgt;

namespace {

pid_t sleeping_child() {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  return pid;
}

}  // namespace

TEST_CASE("all children but those to keep are killed, and what they leave behind") {
  const Subreaping subreaping;
  const pid_t kept = sleeping_child(), killed = sleeping_child();
  const pid_t parent = fork();
  if (parent == 0) {
    sleeping_child();
    pause();
  }
  REQUIRE(eventually([&] {
    return !contents("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children")
                .empty();
  }));
  std::set<pid_t> keep = children();
  keep.erase(killed);
  keep.erase(parent);
  CHECK(kill_other_children(keep).empty());
  CHECK(children() == keep);
  CHECK(is_alive(kept));
  keep.erase(kept);
  CHECK(kill_other_children(keep).empty());
}

TEST_CASE("a child that a debugger holds is not waited for") {
  const pid_t held = sleeping_child();
  StoppedTracer tracer(held);
  std::set<pid_t> keep = children();
  keep.erase(held);
  CHECK(kill_other_children(keep) == std::set<pid_t>{held});
  tracer.end();
  CHECK(kill_other_children(keep).empty());
}

TEST_CASE("children are found and killed although no more files may be open") {
  std::set<pid_t> keep = children();
  const pid_t killed = sleeping_child();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const std::set<pid_t> left = kill_other_children(keep);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(left.empty());
  CHECK_FALSE(is_alive(killed));
}

TEST_CASE("a forked process does not take its parent's children for its own") {
  const std::set<pid_t> keep = children();
  const pid_t sibling = sleeping_child(), asking = fork();
  if (asking == 0) _exit(children().empty() ? 0 : 1);
  int status = -1;
  waitpid(asking, &status, 0);
  CHECK(status == 0);
  CHECK(kill_other_children(keep).empty());
  CHECK_FALSE(is_alive(sibling));
}
