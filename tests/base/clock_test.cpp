#include "hgtrain/base/clock.h"

#include <fstream>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

constexpr int kNewTimeSpace = 0x00000080;  // CLONE_NEWTIME, which older headers lack
constexpr std::int64_t kSecond = 1'000'000'000;

/// How far now_ns() is ahead of a clock that stands still while the machine is suspended.
std::int64_t ahead_ns() {
  return now_ns() -
         std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("the time for which a machine was suspended counts") {
  constexpr int kNoNamespace = 77;
  const std::int64_t before = ahead_ns();
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(kNewTimeSpace) != 0) _exit(kNoNamespace);
    if (!(std::ofstream("/proc/self/timens_offsets") << "boottime 1000 0" << std::flush))
      _exit(kNoNamespace);
    const pid_t inside = fork();  // as on a machine that was suspended for 1000 s
    if (inside == 0) _exit(ahead_ns() - before > 900 * kSecond ? 0 : 1);
    int status = 0;
    waitpid(inside, &status, 0);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WEXITSTATUS(status) == kNoNamespace) return;  // that takes privileges
  CHECK(status == 0);
}
