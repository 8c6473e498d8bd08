#include <sys/ptrace.h>

#include "front.h"

using namespace hgt;

// A grandchild that has left its session and ignores what can be ignored; prints its id.
static const std::string kStray =
    "setsid sh -c 'trap \"\" TERM HUP INT; echo stray=$$; exec sleep 1000' & ";

static bool is_stopped(pid_t pid) {
  return has(contents("/proc/" + std::to_string(pid) + "/stat"), ") T");
}

TEST_CASE("a worker killed from outside is the verdict, and nothing is left of the others") {
  Front front({"--workers", "3", "--", "/bin/sh", "-c", kStray + "echo pid=$$; wait"});
  REQUIRE(front.prints("stray=", 3));
  REQUIRE(front.prints("pid=", 3));
  std::vector<pid_t> all = front.numbers("pid");
  kill(all[1], SIGKILL);
  CHECK(front.wait() == 128 + SIGKILL);
  CHECK(front.failure()["pid"] == all[1]);
  CHECK(has(front.err(), "was killed by SIGKILL"));
  CHECK(has(front.failure()["hint"].get<std::string>(), "memory ran out"));
  for (const pid_t pid : front.numbers("stray")) all.push_back(pid);
  for (const pid_t pid : all) CHECK_FALSE(is_alive(pid));
}

TEST_CASE("a worker that ignores SIGTERM is killed after the grace period, a stopped one too") {
  const std::string misbehave = GENERATE("trap '' TERM", "kill -STOP $$");
  Front front(
      {"--workers", "2", "--grace", "200", "--", "/bin/sh", "-c",
       "echo pid=$$; if [ $RANK = 1 ]; then while ! [ -e \"$1\" ]; do sleep 0.01; done; exit 3; "
       "fi; " +
           misbehave + "; : > \"$1\"; while :; do sleep 1; done",
       "sh", "@ready"});
  REQUIRE(front.prints("pid=", 2));
  if (misbehave != "trap '' TERM") {  // it cannot say that it is ready: it stands still
    const std::vector<pid_t> pids = front.numbers("pid");
    REQUIRE(eventually([&] { return is_stopped(pids[0]) != is_stopped(pids[1]); }));
    kill(pids[is_stopped(pids[0]) ? 1 : 0], SIGUSR1);
    CHECK(front.wait() == 128 + SIGUSR1);
  } else {
    CHECK(front.wait() == 3);
  }
  CHECK(all_end(front.numbers("pid")));
}

TEST_CASE("nothing outlives a launcher that is killed, even if somebody has stopped its guards") {
  const bool stopped = GENERATE(false, true);
  Front front({"--workers", "2", "--", "/bin/sh", "-c",
               "trap '' TERM HUP INT; " + kStray + "echo pid=$$ guard=$PPID; wait; sleep 1000"});
  REQUIRE(front.prints("stray=", 2));
  REQUIRE(front.prints("guard=", 2));
  for (const pid_t guard : front.numbers("guard"))
    if (stopped) kill(guard, SIGSTOP);
  front.kill(SIGKILL);
  front.wait();
  CHECK(all_end(front.numbers("pid")));
  CHECK(all_end(front.numbers("stray")));
}

TEST_CASE("nothing outlives a guard that is killed, and the job ends") {
  Front front({"--workers", "2", "--", "/bin/sh", "-c",
               kStray + "echo pid=$$ guard=$PPID; while :; do sleep 1000; done"});
  REQUIRE(front.prints("stray=", 2));
  REQUIRE(front.prints("guard=", 2));
  kill(front.numbers("guard")[0], SIGKILL);
  CHECK(front.wait() == 128 + SIGKILL);
  CHECK(has(front.err(), "was killed with its guard process"));
  CHECK(all_end(front.numbers("pid")));
  CHECK(all_end(front.numbers("stray")));
}

TEST_CASE("a guard that somebody has stopped keeps nobody waiting") {
  Front front({"--workers", "2", "--grace", "100", "--", "/bin/sh", "-c",
               kStray + "echo pid=$$ guard=$PPID; trap 'exit 4' USR1; while :; do wait; done"});
  REQUIRE(front.prints("stray=", 2));
  REQUIRE(front.prints("guard=", 2));
  const pid_t guard = front.numbers("guard")[0], worker = front.numbers("pid")[0];
  kill(guard, SIGSTOP);
  REQUIRE(eventually([&] { return is_stopped(guard); }));
  SECTION("when its worker ends") {  // the stray still holds its output
    kill(worker, SIGUSR1);
    CHECK(front.wait() == 4);
  }
  SECTION("when the job is stopped") {
    front.kill(SIGTERM);
    CHECK(front.wait() == 128 + SIGTERM);
  }
  CHECK(all_end({guard, worker}));
  CHECK(all_end(front.numbers("stray")));
}

TEST_CASE("a guard that nothing can continue is killed, and what it guarded with it") {
  Front front({"--grace", "100", "--", "/bin/sh", "-c",
               "trap '' TERM; " + kStray + "echo pid=$$ guard=$PPID; while :; do wait; done"});
  REQUIRE(front.prints("stray="));
  REQUIRE(front.prints("guard="));
  const pid_t guard = front.numbers("guard")[0];
  REQUIRE(ptrace(PTRACE_SEIZE, guard, nullptr, nullptr) == 0);
  REQUIRE(ptrace(PTRACE_INTERRUPT, guard, nullptr, nullptr) == 0);
  front.kill(SIGTERM);
  int status = 0;  // the tracer must reap before the parent can
  while (!WIFSIGNALED(status)) REQUIRE(waitpid(guard, &status, __WALL) == guard);
  CHECK(front.wait() == 128 + SIGTERM);
  CHECK(all_end(front.numbers("pid")));
  CHECK(all_end(front.numbers("stray")));
}

TEST_CASE("the verdict has the failing rank's own words and exit code") {
  Front front({"--own", "--workers", "3", "--logs", "@logs", "--", LAUNCH_PROBE, "fail"});
  CHECK(front.wait() == 4);
  const auto failure = front.failure();
  CHECK(failure["rank"] == 1);
  CHECK(failure["message"] == "the token file is damaged");
  CHECK(failure["hint"] == "prepare it again");
  CHECK(failure["context"] == nlohmann::json{"train.bin"});
  CHECK(failure["stopped_ranks"] == 2);
}

TEST_CASE("ranks that only lost a peer are not to blame if one died of something else") {
  Front front({"--own", "--workers", "3", "--", LAUNCH_PROBE, "blame"});
  CHECK(front.wait() == 128 + SIGSEGV);
  CHECK(front.failure()["rank"] == 1);
}

TEST_CASE("a rank that stands still while the others wait for it ends the run as a hang") {
  Front front(
      {"--own", "--workers", "3", "--hang", "8000", "--grace", "100", "--", LAUNCH_PROBE, "hang"});
  CHECK(front.wait() == 5);
  CHECK(front.failure()["rank"] == 1);
  CHECK(has(front.err(), "no progress for"));
  CHECK(has(front.err(), "rank 1 is in 'data' at step 0, collective 7"));
  CHECK(has(front.err(), "rank 0 is in 'all_reduce' at step 0, collective 8"));
  for (const char* line : {"[r0] asked for stacks of 0\n", "[r1] asked for stacks of 1\n"})
    CHECK(has(front.err(), line));
}

TEST_CASE("a rank that timed out waiting for another is not the one to blame") {
  Front front({"--own", "--workers", "3", "--hang", "6000", "--grace", "100", "--", LAUNCH_PROBE,
               "timeout"});
  CHECK(front.wait() == 5);
  CHECK(front.failure()["rank"] == 1);
}

TEST_CASE("a rank whose heartbeats stop ends the run as a hang, although the others continue") {
  Front front({"--own", "--workers", "3", "--hang", "8000", "--grace", "100", "--", LAUNCH_PROBE,
               "freeze"});
  CHECK(front.wait() == 5);
  CHECK(front.failure()["rank"] == 1);
  CHECK(has(front.err(), "no heartbeat for"));
}

TEST_CASE("a process that does not belong to the job gets no control channel") {
  const std::string what = GENERATE("forged", "garbage", "oversized");
  SECTION("a worker of ours that talks so has failed") {
    Front front({"--own", "--workers", "2", "--grace", "100", "--", LAUNCH_PROBE, what});
    CHECK(front.wait() == 6);
    CHECK(has(front.err(), "broke the control channel"));
  }
  SECTION("any other program continues without a channel") {
    Front front({"--", LAUNCH_PROBE, what});
    CHECK(eventually([&] { return has(front.err(), "control channel of rank 0 is closed"); }));
    front.kill(SIGTERM);
    CHECK(front.wait() == 128 + SIGTERM);
  }
}

TEST_CASE("a checkpoint is asked for by SIGUSR2, and nothing ends") {
  Front front({"--own", "--", LAUNCH_PROBE, "checkpoint"});
  REQUIRE(eventually([&] { return has(front.err(), "event 0 started"); }));
  front.kill(SIGUSR2);
  CHECK(front.wait() == 0);
}

TEST_CASE("an event that cannot be parsed closes the channel, and is a failure") {
  Front front({"--own", "--", LAUNCH_PROBE, "malformed"});
  CHECK(front.wait() == 6);
  CHECK(front.failure()["rank"] == 0);
  CHECK(
      has(front.err(),
          "a field of its event 'notice' is missing or wrong: type must be string, but is number"));
}
