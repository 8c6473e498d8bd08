#include "process_title.h"

#include <csignal>
#include <unistd.h>

#include "support/process.h"

using namespace hgt;

TEST_CASE("a child has the title it gives itself, and its parent keeps its own") {
  const std::string before = contents("/proc/self/cmdline");
  const ProcessTitle title;
  const pid_t child = fork();
  if (child == 0) {
    title.set("x-of-1");
    for (;;) pause();
  }
  const std::string path = "/proc/" + std::to_string(child);
  CHECK(eventually([&] { return contents(path + "/cmdline").c_str() == std::string("x-of-1"); }));
  CHECK(contents(path + "/comm") == "x-of-1\n");
  CHECK(contents("/proc/self/cmdline") == before);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}
