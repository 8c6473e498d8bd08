#include "hgtrain/launch/job.h"

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/launch/job_client.h"

#include "full_pipe.h"
#include "job_messages.h"
#include "launcher_process.h"
#include "listener.h"
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

[[maybe_unused]] int peak_kilobytes(pid_t pid) {
  const std::string status = contents("/proc/" + std::to_string(pid) + "/status");
  return std::atoi(status.c_str() + status.find("VmHWM:") + 6);
}

}  // namespace

TEST_CASE("every rank runs with its own place in the environment, and its output is marked") {
  LauncherProcess launcher({"--workers", "3", "--", "/bin/sh", "-c",
                            "echo $RANK/$LOCAL_RANK of $WORLD_SIZE; echo problem $RANK >&2"});
  CHECK(launcher.wait() == 0);
  for (const char* line : {"[r0] 0/0 of 3\n", "[r1] 1/1 of 3\n", "[r2] 2/2 of 3\n"})
    CHECK(has(launcher.out(), line));
  CHECK(has(launcher.err(), "[r2] problem 2\n"));
  CHECK_FALSE(has(launcher.out(), "problem"));
  CHECK(launcher.verdict()["outcome"] == "done");
}

TEST_CASE("arguments arrive as they were given") {
  const std::string odd = "a b\n\"c\" $HOME `id` 'd' \\ * ;\xff";
  LauncherProcess launcher(
      {"--", "/bin/sh", "-c", "printf '%s|' \"$@\"", "sh", odd, "", "--workers"});
  CHECK(launcher.wait() == 0);
  CHECK(launcher.out() == odd + "||--workers|");
}

TEST_CASE("workers of ours meet through the store") {
  LauncherProcess launcher({"--own", "--workers", "3", "--", LAUNCH_PROBE, "meet"});
  CHECK(launcher.wait() == 0);
  for (const char* line :
       {"[r0] 0 got value of 2\n", "[r2] 2 got value of 0\n", "[r1] 1 got value of 1\n"})
    CHECK(has(launcher.out(), line));
}

TEST_CASE("the first failure is the verdict, and the others are stopped") {
  LauncherProcess launcher({"--workers", "3", "--", "/bin/sh", "-c",
                            "if [ $RANK = 1 ]; then echo last words; exit 7; fi; sleep 1000"});
  CHECK(launcher.wait() == 7);
  CHECK(launcher.failure()["rank"] == 1);
  CHECK(launcher.failure()["stopped_ranks"] == 2);
  CHECK(launcher.failure()["last_lines"] == nlohmann::json{"last words"});
  CHECK(has(launcher.err(), "exited with code 7"));
}

TEST_CASE("a signal makes our workers stop in their own time") {
  LauncherProcess launcher({"--own", "--workers", "2", "--", LAUNCH_PROBE, "stop"});
  REQUIRE(eventually([&] { return has(launcher.err(), "event 1 started"); }));
  launcher.kill(GENERATE(SIGTERM, SIGINT, SIGUSR1, SIGHUP));
  CHECK(launcher.wait() == 75);
  CHECK(launcher.verdict()["outcome"] == "stopped");
}

TEST_CASE("a stop that comes before a worker listens is not lost") {
  LauncherProcess launcher({"--own", "--workers", "2", "--", LAUNCH_PROBE, "stop"});
  REQUIRE(eventually([&] { return has(launcher.err(), "event 0 spawned"); }));
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 75);
}

TEST_CASE("a signal is passed on to any other program") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP, SIGQUIT);
  SECTION("that dies of it") {
    LauncherProcess launcher({"--workers", "2", "--", "/bin/sh", "-c",
                              "ulimit -c 0; echo ready $RANK; exec sleep 1000"});
    REQUIRE(launcher.prints("ready", 2));
    launcher.kill(signal);
    CHECK(launcher.wait() == 128 + signal);
    CHECK(launcher.verdict()["outcome"] == "stopped");
  }
  SECTION("that leaves in its own way") {
    LauncherProcess launcher(
        {"--workers", "2", "--", "/bin/sh", "-c",
         "trap 'echo saved $RANK; exit 0' TERM INT HUP QUIT; echo ready $RANK; while :; do "
         "sleep 0.01; done"});
    REQUIRE(launcher.prints("ready", 2));
    launcher.kill(signal);
    CHECK(launcher.wait() == 0);
    CHECK(launcher.prints("saved", 2));
  }
}

TEST_CASE("to another program SIGUSR1 may mean something that ends nothing") {
  LauncherProcess launcher(
      {"--", "/bin/sh", "-c",
       "trap 'echo saved' USR1; trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"});
  REQUIRE(launcher.prints("ready"));
  launcher.kill(SIGUSR1);
  REQUIRE(launcher.prints("saved"));
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 9);
}

TEST_CASE("a second Ctrl-C ends everything at once") {
  LauncherProcess launcher(
      {"--workers", "2", "--", "/bin/sh", "-c",
       "trap 'echo caught $RANK' INT TERM; echo pid=$$; while :; do sleep 0.01; done"});
  REQUIRE(launcher.prints("pid=", 2));
  launcher.kill(SIGINT);
  REQUIRE(launcher.prints("caught", 2));
  launcher.kill(SIGINT);
  CHECK(launcher.wait() == 130);
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("all ranks are started again, as often as allowed") {
  LauncherProcess launcher(
      {"--workers", "2", "--restarts", "2", "--", "/bin/sh", "-c",
       "echo attempt $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS; "
       "[ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = \"$1\" ] || exit 3; "
       "[ $RANK = 1 ] || [ $TORCHELASTIC_RESTART_COUNT = \"$1\" ] || sleep 1000",
       "sh", GENERATE("2", "never")});
  const bool recovers = launcher.wait() == 0;
  CHECK(launcher.verdict()["restarts"] == 2);
  CHECK(has(launcher.err(), "restarting all 2 ranks (2 of 2)"));
  CHECK(has(launcher.out(), "attempt 2 of 2"));
  CHECK(launcher.verdict()["outcome"] == (recovers ? "done" : "failed"));
  CHECK(launcher.wait() == (recovers ? 0 : 3));
}

TEST_CASE("only restarts without a new checkpoint are counted") {
  LauncherProcess launcher(
      {"--own", "--workers", "1", "--restarts", "2", "--", LAUNCH_PROBE, "progress"});
  CHECK(launcher.wait() == 137);
  CHECK(launcher.verdict()["restarts"] == 4);
  CHECK(has(launcher.err(), "restarting it (1 of 2 since the checkpoint of step 1)"));
  CHECK(has(launcher.err(), "restarting it (2 of 2 since the checkpoint of step 3)"));
}

TEST_CASE("if a restart cannot begin, the job ended as its last attempt did") {
  const TemporaryFolder folder;
  LauncherProcess launcher({"--restarts", "1", "--logs", folder / "logs", "--", "/bin/sh", "-c",
                            "rm -r \"$1\"; touch \"$1\"; exit 7", "sh", folder / "logs"});
  CHECK(launcher.wait() == 7);
  CHECK(launcher.verdict()["restarts"] == 0);
  CHECK(launcher.failure()["rank"] == 0);
  CHECK(has(launcher.failure()["no_restart"], "is not a folder that logs can be written to"));
}

TEST_CASE("a job that a restart cannot fix is not started again") {
  LauncherProcess launcher(
      {"--own", "--workers", "2", "--restarts", "3", "--", LAUNCH_PROBE, "fail"});
  CHECK(launcher.wait() == 4);
  CHECK(launcher.verdict()["restarts"] == 0);
}

TEST_CASE("the process that has taken MASTER_PORT is named if the job fails") {
  LauncherProcess launcher(
      {"--workers", "2", "--", "/bin/sh", "-c",
       "trap 'exit 5' USR1; echo pid=$$ port=$MASTER_PORT; while :; do sleep 0.01; done"});
  REQUIRE(launcher.prints("port=", 2));
  const Listener stranger(launcher.numbers("port")[0]);
  kill(launcher.numbers("pid")[0], SIGUSR1);
  CHECK(launcher.wait() == 5);
  CHECK(has(launcher.err(), "hint: launch_test (pid " + std::to_string(getpid()) +
                                ") listens on MASTER_PORT " + std::to_string(stranger.port())));
}

TEST_CASE("a program that cannot be found starts nothing") {
  LauncherProcess launcher({"--workers", "2", "--", "no-such-program"});
  CHECK(launcher.wait() == 2);
  CHECK(has(launcher.err(), "there is no program 'no-such-program' in PATH"));
  CHECK_FALSE(has(launcher.err(), "spawned"));
}

TEST_CASE("logs hold all that a rank printed, in lines, from one attempt to the next") {
  LauncherProcess launcher(
      {"--logs", "@logs", "--restarts", "1", "--", "/bin/sh", "-c",
       "echo out $TORCHELASTIC_RESTART_COUNT; printf 'no newline'; echo error >&2; "
       "exit $((1 - TORCHELASTIC_RESTART_COUNT))"});
  CHECK(launcher.wait() == 0);
  const std::string log = launcher.file("logs/rank_0.log");
  for (const char* line : {"out 0\n", "out 1\n", "no newline\n", "error\n"}) CHECK(has(log, line));
}

TEST_CASE("neither a flood of output nor a client that does not read it delays heartbeats") {
  const TemporaryFolder run;
  LauncherProcess launcher({"--own", "--workers", "2", "--socket", run.path(), "--logs",
                            run / "logs", "--", LAUNCH_PROBE, "flood_of_one"});
  REQUIRE(eventually([&] { return JobClient::connect(run.path()).has_value(); }));
  std::vector<OwnedFd> watchers;
  for (int i = 0; i < 3; ++i) watchers.push_back(watch_without_reading(run.path()));
  REQUIRE(eventually([&] { return has(launcher.err(), "event 1 notice"); }));
  const std::size_t flooded = launcher.err().find("event 1 notice");
  for (const char* beat : {"event 0 heartbeat", "event 1 heartbeat"})
    REQUIRE(eventually([&] { return launcher.err().find(beat, flooded) != std::string::npos; }));
  CHECK(JobClient::connect(run.path())->status());
#ifndef __SANITIZE_ADDRESS__  // the sanitizer keeps what was freed
  CHECK(peak_kilobytes(launcher.pid()) < 100'000);
#endif
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 75);
  CHECK(launcher.out().size() > 200'000'000);
}

TEST_CASE("a job whose console nobody reads can be asked, and is stopped by a signal") {
  const TemporaryFolder run;
  FullPipe console;
  LauncherProcess launcher({"--own", "--workers", "2", "--socket", run.path(), "--logs",
                            run / "logs", "--", LAUNCH_PROBE, "stop"},
                           console.writer());
  REQUIRE(eventually([&] {
    auto socket = JobClient::connect(run.path());
    const auto status = socket ? socket->status() : std::nullopt;
    return status && (*status)["ranks"].size() == 2 && (*status)["ranks"][1].contains("phase");
  }));
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 75);
  CHECK(launcher.verdict()["outcome"] == "stopped");
  CHECK(console.read_all().find_first_not_of('.') == std::string::npos);
}

TEST_CASE("a job that has ended waits for somebody to read its console, until it is stopped") {
  FullPipe console;
  const std::vector<std::string> args{"--workers", "1", "--", "/bin/sh", "-c", "echo output"};
  SECTION("somebody reads") {
    LauncherProcess launcher(args, console.writer());
    REQUIRE(eventually([&] { return !launcher.file("verdict.json").empty(); }));
    const std::string text = console.read_all();
    CHECK(has(text, "event 0 spawned"));
    CHECK(has(text, "output\n"));
    CHECK(launcher.wait() == 0);
  }
  SECTION("nobody does") {
    LauncherProcess launcher(args, console.writer());
    REQUIRE(eventually([&] { return !launcher.file("verdict.json").empty(); }));
    launcher.kill(SIGTERM);
    CHECK(launcher.wait() == 0);
  }
}

TEST_CASE("output that nobody reads any more stops the job") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  TemporaryFolder folder;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0666), 2);
    execl(LAUNCHER, LAUNCHER, "--", "/bin/sh", "-c", "while echo y; do :; done", nullptr);
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
