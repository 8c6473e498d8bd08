#include "hgtrain/launch/job.h"

#include "hgtrain/launch/job_client.h"

#include "front.h"
#include "job_messages.h"
#include "listener.h"
#include "owned_fd.h"
#include "socket_address.h"

using namespace hgt;

namespace {

/// A connection that asks for the console's text and never takes it.
OwnedFd watch_without_reading(const std::string& folder) {
  const OwnedFd opened(open_folder(folder));
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const SocketAddress address(opened.get());
  REQUIRE(connect(fd.get(), address.get(), address.size()) == 0);
  const std::string request = frame_of(AskConsole{});
  REQUIRE(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
  return fd;
}

int peak_kilobytes(pid_t pid) {
  const std::string status = contents("/proc/" + std::to_string(pid) + "/status");
  return std::atoi(status.c_str() + status.find("VmHWM:") + 6);
}

}  // namespace

TEST_CASE("every rank runs with its own place in the environment, and its output is marked") {
  Front front({"--workers", "3", "--", "/bin/sh", "-c",
               "echo $RANK/$LOCAL_RANK of $WORLD_SIZE; echo problem $RANK >&2"});
  CHECK(front.wait() == 0);
  for (const char* line : {"[r0] 0/0 of 3\n", "[r1] 1/1 of 3\n", "[r2] 2/2 of 3\n"})
    CHECK(has(front.out(), line));
  CHECK(has(front.err(), "[r2] problem 2\n"));
  CHECK_FALSE(has(front.out(), "problem"));
  CHECK(front.verdict()["outcome"] == "done");
}

TEST_CASE("arguments arrive as they were given") {
  const std::string odd = "a b\n\"c\" $HOME `id` 'd' \\ * ;\xff";
  Front front({"--", "/bin/sh", "-c", "printf '%s|' \"$@\"", "sh", odd, "", "--workers"});
  CHECK(front.wait() == 0);
  CHECK(front.out() == odd + "||--workers|");
}

TEST_CASE("workers of ours meet through the store") {
  Front front({"--own", "--workers", "3", "--", LAUNCH_PROBE, "meet"});
  CHECK(front.wait() == 0);
  for (const char* line :
       {"[r0] 0 got value of 2\n", "[r2] 2 got value of 0\n", "[r1] 1 got value of 1\n"})
    CHECK(has(front.out(), line));
}

TEST_CASE("the first failure is the verdict, and the others are stopped") {
  Front front({"--workers", "3", "--", "/bin/sh", "-c",
               "if [ $RANK = 1 ]; then echo last words; exit 7; fi; sleep 1000"});
  CHECK(front.wait() == 7);
  CHECK(front.failure()["rank"] == 1);
  CHECK(front.failure()["stopped_ranks"] == 2);
  CHECK(front.failure()["last_lines"] == nlohmann::json{"last words"});
  CHECK(has(front.err(), "exited with code 7"));
}

TEST_CASE("a signal makes our workers stop in their own time") {
  Front front({"--own", "--workers", "2", "--", LAUNCH_PROBE, "stop"});
  REQUIRE(eventually([&] { return has(front.err(), "event 1 started"); }));
  front.kill(GENERATE(SIGTERM, SIGINT, SIGUSR1, SIGHUP));
  CHECK(front.wait() == 75);
  CHECK(front.verdict()["outcome"] == "stopped");
}

TEST_CASE("a stop that comes before a worker listens is not lost") {
  Front front({"--own", "--workers", "2", "--", LAUNCH_PROBE, "stop"});
  REQUIRE(eventually([&] { return has(front.err(), "event 0 spawned"); }));
  front.kill(SIGTERM);
  CHECK(front.wait() == 75);
}

TEST_CASE("a signal is passed on to any other program") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP, SIGQUIT);
  SECTION("that dies of it") {
    Front front({"--workers", "2", "--", "/bin/sh", "-c",
                 "ulimit -c 0; echo ready $RANK; exec sleep 1000"});
    REQUIRE(front.prints("ready", 2));
    front.kill(signal);
    CHECK(front.wait() == 128 + signal);
    CHECK(front.verdict()["outcome"] == "stopped");
  }
  SECTION("that leaves in its own way") {
    Front front({"--workers", "2", "--", "/bin/sh", "-c",
                 "trap 'echo saved $RANK; exit 0' TERM INT HUP QUIT; echo ready $RANK; while :; do "
                 "sleep 0.01; done"});
    REQUIRE(front.prints("ready", 2));
    front.kill(signal);
    CHECK(front.wait() == 0);
    CHECK(front.prints("saved", 2));
  }
}

TEST_CASE("to another program SIGUSR1 may mean something that ends nothing") {
  Front front(
      {"--", "/bin/sh", "-c",
       "trap 'echo saved' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"});
  REQUIRE(front.prints("ready"));
  front.kill(SIGUSR1);
  REQUIRE(front.prints("saved"));
  front.kill(SIGTERM);
  CHECK(front.wait() == 9);
}

TEST_CASE("a second Ctrl-C ends everything at once") {
  Front front({"--workers", "2", "--", "/bin/sh", "-c",
               "trap 'echo caught $RANK' INT TERM; echo pid=$$; while :; do sleep 0.01; done"});
  REQUIRE(front.prints("pid=", 2));
  front.kill(SIGINT);
  REQUIRE(front.prints("caught", 2));
  front.kill(SIGINT);
  CHECK(front.wait() == 130);
  CHECK(all_end(front.numbers("pid")));
}

TEST_CASE("all ranks are started again, as often as allowed") {
  Front front({"--workers", "2", "--restarts", "2", "--", "/bin/sh", "-c",
               "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
               "[ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = \"$1\" ] || exit 3; "
               "[ $RANK = 1 ] || [ $TORCHELASTIC_RESTART_COUNT = \"$1\" ] || sleep 1000",
               "sh", GENERATE("2", "never")});
  const bool recovers = front.wait() == 0;
  CHECK(front.verdict()["restarts"] == 2);
  CHECK(has(front.err(), "restarting all 2 ranks (2 of 2)"));
  CHECK(has(front.out(), "attempt 2 of 2"));
  CHECK(front.verdict()["outcome"] == (recovers ? "done" : "failed"));
  CHECK(front.wait() == (recovers ? 0 : 3));
}

TEST_CASE("only restarts without a new checkpoint are counted") {
  Front front({"--own", "--workers", "1", "--restarts", "2", "--", LAUNCH_PROBE, "progress"});
  CHECK(front.wait() == 137);
  CHECK(front.verdict()["restarts"] == 4);
  CHECK(has(front.err(), "restarting it (1 of 2 since the checkpoint of step 1)"));
  CHECK(has(front.err(), "restarting it (2 of 2 since the checkpoint of step 3)"));
}

TEST_CASE("a job that a restart cannot fix is not started again") {
  Front front({"--own", "--workers", "2", "--restarts", "3", "--", LAUNCH_PROBE, "fail"});
  CHECK(front.wait() == 4);
  CHECK(front.verdict()["restarts"] == 0);
}

TEST_CASE("the process that has taken MASTER_PORT is named if the job fails") {
  Front front({"--workers", "2", "--", "/bin/sh", "-c",
               "trap 'exit 5' USR1; echo pid=$$ port=$MASTER_PORT; while :; do sleep 0.01; done"});
  REQUIRE(front.prints("port=", 2));
  const Listener stranger(front.numbers("port")[0]);
  kill(front.numbers("pid")[0], SIGUSR1);
  CHECK(front.wait() == 5);
  CHECK(has(front.err(), "hint: launch_test (pid " + std::to_string(getpid()) +
                             ") listens on MASTER_PORT " + std::to_string(stranger.port())));
}

TEST_CASE("a program that cannot be found starts nothing") {
  Front front({"--workers", "2", "--", "no-such-program"});
  CHECK(front.wait() == 2);
  CHECK(has(front.err(), "there is no program 'no-such-program' in PATH"));
  CHECK_FALSE(has(front.err(), "spawned"));
}

TEST_CASE("logs hold all that a rank printed, in lines, from one attempt to the next") {
  Front front({"--logs", "@logs", "--restarts", "1", "--", "/bin/sh", "-c",
               "echo out $TORCHELASTIC_RESTART_COUNT; printf 'no newline'; echo error >&2; "
               "exit $((1 - TORCHELASTIC_RESTART_COUNT))"});
  CHECK(front.wait() == 0);
  const std::string log = front.file("logs/rank_0.log");
  for (const char* line : {"out 0\n", "out 1\n", "no newline\n", "error\n"}) CHECK(has(log, line));
}

TEST_CASE("neither a flood of output nor a client that does not read it delays heartbeats") {
  const TemporaryFolder run;
  Front front({"--own", "--workers", "2", "--socket", run.path(), "--logs", run / "logs", "--",
               LAUNCH_PROBE, "flood_of_one"});
  REQUIRE(eventually([&] { return JobClient::connect(run.path()).has_value(); }));
  std::vector<OwnedFd> watchers;
  for (int i = 0; i < 3; ++i) watchers.push_back(watch_without_reading(run.path()));
  REQUIRE(eventually([&] { return has(front.err(), "event 1 notice"); }));
  const std::size_t flooded = front.err().find("event 1 notice");
  for (const char* beat : {"event 0 heartbeat", "event 1 heartbeat"})
    REQUIRE(eventually([&] { return front.err().find(beat, flooded) != std::string::npos; }));
  CHECK(JobClient::connect(run.path())->status());
  CHECK(peak_kilobytes(front.pid()) < 100'000);
  front.kill(SIGTERM);
  CHECK(front.wait() == 75);
  CHECK(front.out().size() > 200'000'000);
}

TEST_CASE("output that nobody reads any more stops the job") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  TemporaryFolder folder;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0666), 2);
    execl(LAUNCH_FRONT, LAUNCH_FRONT, "--", "/bin/sh", "-c", "while echo y; do :; done", nullptr);
    _exit(126);
  }
  char byte;
  CHECK(read(ends[0], &byte, 1) == 1);
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
}
