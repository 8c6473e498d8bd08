#include "guard.h"

#include <cstdlib>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "support/process.h"

using namespace hgt;

namespace {

GuardedWorker start(const std::string& script) {
  return spawn_guarded(0, "/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"});
}

/// One line of a stream that continues.
int read_number(const OwnedFd& fd) {
  std::string line;
  while (line.find('\n') == std::string::npos) {
    pollfd event{fd.get(), POLLIN, 0};
    poll(&event, 1, -1);
    char c;
    if (read(fd.get(), &c, 1) != 1) break;
    line += c;
  }
  return std::atoi(line.c_str());
}

WorkerEnd wait_for_end(const GuardedWorker& process) {
  WorkerEnd end;
  pollfd event{process.lifeline.get(), POLLIN, 0};
  poll(&event, 1, -1);
  REQUIRE(recv(process.lifeline.get(), &end, sizeof end, 0) == sizeof end);
  return end;
}

void reap(const GuardedWorker& process) {
  CHECK(waitpid(process.guard, nullptr, 0) == process.guard);
}

// Prints the id of a grandchild that has left the session and ignores what can be ignored.
const std::string kGrandchild =
    "setsid sh -c 'trap \"\" TERM HUP INT; echo $$; exec sleep 1000' & ";

}  // namespace

TEST_CASE("the guard reports how its worker ended") {
  GuardedWorker process = start("exit 7");
  CHECK(WEXITSTATUS(wait_for_end(process).wait_status) == 7);
  reap(process);
  process = start("kill -SEGV $$");
  CHECK(WTERMSIG(wait_for_end(process).wait_status) == SIGSEGV);
  reap(process);
}

TEST_CASE("processes that a worker leaves behind are killed, in a session of their own or not") {
  const GuardedWorker process = start(kGrandchild + "wait");
  const pid_t stray = read_number(process.output);
  CHECK(stray > 0);
  SECTION("when the worker ends") {
    kill(process.worker, SIGKILL);
  }
  SECTION("when the guard gets the order") {
    const int signal = SIGKILL;
    send(process.lifeline.get(), &signal, sizeof signal, 0);
  }
  wait_for_end(process);
  reap(process);
  CHECK_FALSE(is_alive(stray));
  CHECK_FALSE(is_alive(process.worker));
}

TEST_CASE("the end of the stream to the guard is the end of all") {
  GuardedWorker process = start("trap '' TERM HUP INT; " + kGrandchild + "wait");
  const pid_t stray = read_number(process.output);
  process.lifeline = OwnedFd();
  reap(process);
  CHECK_FALSE(is_alive(stray));
  CHECK_FALSE(is_alive(process.worker));
}

TEST_CASE("a worker does not outlive its guard") {
  const GuardedWorker process = start("trap '' TERM HUP INT; exec sleep 1000");
  kill(process.guard, SIGKILL);
  reap(process);
  CHECK(eventually([&] { return !is_alive(process.worker); }));
}

TEST_CASE("a guard with a lease ends all if nothing comes from its parent") {
  const GuardedWorker process =
      spawn_guarded(0, "/bin/sh", {"sh", "-c", "trap '' TERM; echo 1; while :; do sleep 1; done"},
                    {"PATH=/usr/bin:/bin"}, -1, std::chrono::milliseconds(500));
  CHECK(read_number(process.output) == 1);
  CHECK(WTERMSIG(wait_for_end(process).wait_status) == SIGKILL);
  reap(process);
}

TEST_CASE("a signal goes to all of the worker's process group") {
  const GuardedWorker process = start("sleep 1000 & echo $!; wait");
  const pid_t child = read_number(process.output);
  const int signal = SIGTERM;
  send(process.lifeline.get(), &signal, sizeof signal, 0);
  CHECK(WTERMSIG(wait_for_end(process).wait_status) == SIGTERM);
  reap(process);
  CHECK_FALSE(is_alive(child));
}

TEST_CASE("a worker starts with four descriptors, no signal blocked or ignored, and no terminal") {
  const int inherited = open("/dev/null", O_RDONLY);  // not close-on-exec
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  GuardedWorker process = start("echo 1; kill -STOP $$");
  std::signal(SIGPIPE, before);
  close(inherited);
  CHECK(read_number(process.output) == 1);  // all that starting it opens is closed again
  const std::string worker = "/proc/" + std::to_string(process.worker);
  CHECK(list_folder(worker + "/fd") == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(std::filesystem::read_symlink(worker + "/fd/0") == "/dev/null");
  const std::string status = contents(worker + "/status");
  CHECK(status.find("SigBlk:\t0000000000000000") != std::string::npos);
  CHECK(status.find("SigIgn:\t0000000000000000") != std::string::npos);
  CHECK(getsid(process.worker) == process.worker);
  CHECK(getsid(process.guard) == process.guard);
  CHECK(contents("/proc/" + std::to_string(process.guard) + "/cmdline").starts_with("guard-of-0"));
  process.lifeline = OwnedFd();
  reap(process);
}

TEST_CASE("a program that cannot be executed is an error that says why") {
  CHECK_THROWS_WITH(spawn_guarded(0, "/nowhere", {"x"}, {}),
                    Catch::Contains("cannot execute /nowhere: No such file"));
  try {
    spawn_guarded(0, "/proc/version", {"x"}, {});
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
  }
}
