#include "worker.h"

#include <csignal>

#include <nlohmann/json.hpp>

#include "support/process.h"
#include "support/refusal.h"

using namespace hgt;

namespace {

/// One worker on a loop of its own, and what it sent, except for its heartbeats.
struct Run {
  explicit Run(const std::vector<std::string>& argv, std::vector<std::string> env = {},
               OutputSink* console = nullptr) {
    env.insert(env.end(), {"RANK=0", "WORLD_SIZE=1", "PATH=/usr/bin:/bin", "HGTRAIN_CONTROL_FD=3",
                           "HGTRAIN_JOB_KEY=" + key.hex()});
    worker.emplace(
        io, 0, spawn_guarded(0, argv[0], argv, env), key, store, RankOutput(logs, {"", 0, console}),
        Worker::Events{[this](Worker&) { events.push_back("ended"); },
                       [this](Worker&) {
                         events.push_back("gone");
                         io.stop();
                       },
                       [](Worker&) {},
                       [this](Worker&, const std::string& kind, const nlohmann::json&) {
                         events.push_back(kind);
                       },
                       [this](Worker&, const std::string&) { events.push_back("broken"); },
                       [](Worker&, const Heartbeat&) {}});
  }

  asio::io_context io;
  WriterThread logs{io, [] {}};
  JobKey key = JobKey::random();
  JobStore store;
  std::vector<std::string> events;
  std::optional<Worker> worker;
};

}  // namespace

TEST_CASE("what a worker said last is known before it has ended") {
  Run run({LAUNCH_PROBE, "fail"}, {"RANK=1"});
  run.io.run();
  CHECK(run.events == std::vector<std::string>{"broken", "ended", "gone"});  // it is rank 0 here
  Run right({LAUNCH_PROBE, "last_words"});
  right.io.run();
  CHECK(right.events == std::vector<std::string>{"notice", "ended", "gone"});
}

TEST_CASE("how a worker ended is known even if its guard has not read all that it was sent") {
  Run run({"/bin/sleep", "1000"});
  const pid_t guard = run.worker->guard();
  kill(guard, SIGSTOP);
  REQUIRE(
      eventually([&] { return has(contents("/proc/" + std::to_string(guard) + "/stat"), ") T"); }));
  for (int i = 0; i < 3; ++i)
    run.worker->renew_lease();  // the guard reads one before it looks further
  kill(run.worker->pid(), SIGTERM);
  REQUIRE(eventually([&] { return !is_alive(run.worker->pid()); }));
  kill(guard, SIGCONT);
  run.io.run();
  CHECK(WTERMSIG(run.worker->end().wait_status) == SIGTERM);
  CHECK(run.worker->end().at_ns > 0);
}

TEST_CASE("all output is read before a worker counts as gone, even if it ended long before") {
  Run run(
      {"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo the end; kill -9 $$"});
  run.io.run();
  CHECK(run.worker->last_lines().back() == "the end");
  CHECK(WTERMSIG(run.worker->end().wait_status) == SIGKILL);
}

TEST_CASE("a process outside that holds the output open does not keep a worker from being gone") {
  // The test itself holds the worker's stdout open, as a daemon elsewhere could.
  Run run({"/bin/sh", "-c", "kill -STOP $$; exit 0"});
  const std::string out = "/proc/" + std::to_string(run.worker->pid()) + "/fd/1";
  REQUIRE(eventually([&] { return is_alive(run.worker->pid()); }));
  const OwnedFd held(open(out.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(held.get() >= 0);
  run.worker->signal(SIGKILL);
  run.io.run();
  CHECK(run.worker->is_gone());
}

namespace {

struct FullConsole final : OutputSink {
  void write(int, Stream, std::string_view) override {}
  void end(int) override {}
  bool is_full() const override { return true; }
};

}  // namespace

TEST_CASE("what a worker printed last is read even if the console takes nothing any more") {
  FullConsole console;
  Run run({"/bin/sh", "-c", "echo the reason >&2; exit 3"}, {}, &console);
  run.io.run();
  CHECK(run.worker->last_lines() == std::vector<std::string>{"the reason"});
}
