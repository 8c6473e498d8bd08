#include "children.h"

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
