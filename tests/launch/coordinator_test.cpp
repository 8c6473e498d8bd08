#include "coordinator.h"

#include <sys/ptrace.h>

#include "launcher_process.h"
#include "merged_output.h"
#include "silent_agent.h"

using namespace hgt;

// A grandchild that has left its session and ignores what can be ignored; prints its id.
static const std::string kStray =
    "setsid sh -c 'trap \"\" TERM HUP INT; echo stray=$$; exec sleep 1000' & ";

template <class Message>
static Frame as_frame(const Message& message) {
  return {Message::kKind, encode_payload(message)};
}

static bool is_stopped(pid_t pid) {
  return has(contents("/proc/" + std::to_string(pid) + "/stat"), ") T");
}

TEST_CASE("a worker killed from outside is the verdict, and nothing is left of the others") {
  LauncherProcess launcher({"--workers", "3", "--", "/bin/sh", "-c", kStray + "echo pid=$$; wait"});
  REQUIRE(launcher.prints("stray=", 3));
  REQUIRE(launcher.prints("pid=", 3));
  std::vector<pid_t> all = launcher.numbers("pid");
  kill(all[1], SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(launcher.failure()["pid"] == all[1]);
  CHECK(has(launcher.err(), "was killed by SIGKILL"));
  CHECK(has(launcher.failure()["hint"].get<std::string>(), "memory ran out"));
  for (const pid_t pid : launcher.numbers("stray")) all.push_back(pid);
  for (const pid_t pid : all) CHECK_FALSE(is_alive(pid));
}

TEST_CASE("a worker that ignores SIGTERM is killed after the grace period, a stopped one too") {
  const std::string misbehave = GENERATE("trap '' TERM", "kill -STOP $$");
  LauncherProcess launcher(
      {"--workers", "2", "--grace", "200", "--", "/bin/sh", "-c",
       "echo pid=$$; if [ $RANK = 1 ]; then while ! [ -e \"$1\" ]; do sleep 0.01; done; exit 3; "
       "fi; " +
           misbehave + "; : > \"$1\"; while :; do sleep 1; done",
       "sh", "@ready"});
  REQUIRE(launcher.prints("pid=", 2));
  if (misbehave != "trap '' TERM") {  // it cannot say that it is ready: it stands still
    const std::vector<pid_t> pids = launcher.numbers("pid");
    REQUIRE(eventually([&] { return is_stopped(pids[0]) != is_stopped(pids[1]); }));
    kill(pids[is_stopped(pids[0]) ? 1 : 0], SIGUSR1);
    CHECK(launcher.wait() == 128 + SIGUSR1);
  } else {
    CHECK(launcher.wait() == 3);
  }
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("nothing outlives a launcher that is killed, even if somebody has stopped its guards") {
  const bool stopped = GENERATE(false, true);
  LauncherProcess launcher(
      {"--workers", "2", "--", "/bin/sh", "-c",
       "trap '' TERM HUP INT; " + kStray + "echo pid=$$ guard=$PPID; wait; sleep 1000"});
  REQUIRE(launcher.prints("stray=", 2));
  REQUIRE(launcher.prints("guard=", 2));
  for (const pid_t guard : launcher.numbers("guard"))
    if (stopped) kill(guard, SIGSTOP);
  launcher.kill(SIGKILL);
  launcher.wait();
  CHECK(all_end(launcher.numbers("pid")));
  CHECK(all_end(launcher.numbers("stray")));
}

TEST_CASE("nothing outlives a guard that is killed, and the job ends") {
  LauncherProcess launcher({"--workers", "2", "--", "/bin/sh", "-c",
                            kStray + "echo pid=$$ guard=$PPID; while :; do sleep 1000; done"});
  REQUIRE(launcher.prints("stray=", 2));
  REQUIRE(launcher.prints("guard=", 2));
  kill(launcher.numbers("guard")[0], SIGKILL);
  CHECK(launcher.wait() == 128 + SIGKILL);
  CHECK(has(launcher.err(), "was killed with its guard process"));
  CHECK(all_end(launcher.numbers("pid")));
  CHECK(all_end(launcher.numbers("stray")));
}

TEST_CASE("a guard that somebody has stopped keeps nobody waiting") {
  LauncherProcess launcher(
      {"--workers", "2", "--grace", "100", "--", "/bin/sh", "-c",
       kStray + "echo pid=$$ guard=$PPID; trap 'exit 4' USR1; while :; do wait; done"});
  REQUIRE(launcher.prints("stray=", 2));
  REQUIRE(launcher.prints("guard=", 2));
  const pid_t guard = launcher.numbers("guard")[0], worker = launcher.numbers("pid")[0];
  REQUIRE(eventually([&] {
    kill(guard, SIGSTOP);  // the launcher continues it
    return is_stopped(guard);
  }));
  SECTION("when its worker ends") {  // the stray still holds its output
    kill(worker, SIGUSR1);
    CHECK(launcher.wait() == 4);
  }
  SECTION("when the job is stopped") {
    launcher.kill(SIGTERM);
    CHECK(launcher.wait() == 128 + SIGTERM);
  }
  CHECK(all_end({guard, worker}));
  CHECK(all_end(launcher.numbers("stray")));
}

TEST_CASE("a guard that nothing can continue is killed, and what it guarded with it") {
  LauncherProcess launcher(
      {"--grace", "100", "--", "/bin/sh", "-c",
       "trap '' TERM; " + kStray + "echo pid=$$ guard=$PPID; while :; do wait; done"});
  REQUIRE(launcher.prints("stray="));
  REQUIRE(launcher.prints("guard="));
  const pid_t guard = launcher.numbers("guard")[0];
  REQUIRE(ptrace(PTRACE_SEIZE, guard, nullptr, nullptr) == 0);
  REQUIRE(ptrace(PTRACE_INTERRUPT, guard, nullptr, nullptr) == 0);
  launcher.kill(SIGTERM);
  int status = 0;  // the tracer must reap before the parent can
  while (!WIFSIGNALED(status)) REQUIRE(waitpid(guard, &status, __WALL) == guard);
  CHECK(launcher.wait() == 128 + SIGTERM);
  CHECK(all_end(launcher.numbers("pid")));
  CHECK(all_end(launcher.numbers("stray")));
}

TEST_CASE("if a host is lost before any rank has started, the attempt ends at once") {
  asio::io_context io;
  MergedOutput console(io, {});
  SilentAgent a(io, console, "a"), b(io, console, "b");
  JobSpec spec;
  spec.num_workers = 2;
  if (GENERATE(false, true)) spec.rendezvous = Rendezvous();
  bool has_finished = false;
  Coordinator coordinator(
      {io, spec, {}, [](const std::string&) {}, [](const Error&) {}, [&] { has_finished = true; }},
      {{&a.link, 0, 1, {}}, {&b.link, 1, 1, {}}}, 0);
  coordinator.start();
  coordinator.on_lost(a.link, "nothing has come from it for 15 s");
  CHECK(has_finished);
  CHECK(coordinator.verdict().exit_code == 6);
  CHECK(coordinator.verdict().host == "a");
  CHECK(has(coordinator.verdict().hint, "with --max_restarts N the job waits for the host"));
  CHECK(has(coordinator.verdict().hint, "a spare of the hostfile") != spec.rendezvous.has_value());
}

TEST_CASE("a host that cannot start its ranks in a restart only makes that fail") {
  asio::io_context io;
  MergedOutput console(io, {});
  SilentAgent a(io, console, "a"), b(io, console, "b");
  JobSpec spec;
  spec.num_workers = 2;
  spec.argv = [](int) { return std::vector<std::string>{"worker"}; };
  const std::uint32_t number = GENERATE(0, 2);
  bool has_finished = false;
  std::string why;
  Coordinator coordinator({io,
                           spec,
                           {},
                           [](const std::string&) {},
                           [&](const Error& error) { why = error.message(); },
                           [&] { has_finished = true; }},
                          {{&a.link, 0, 1, {}}, {&b.link, 1, 1, {}}}, static_cast<int>(number));
  coordinator.start();
  coordinator.on_frame(a.link, as_frame(PortReserved{number, 29500, "10.0.0.1"}));
  const Error error(ErrorKind::kConfig, "there is no room", "make room");
  coordinator.on_frame(b.link, as_frame(not_spawned(number, error)));
  CHECK(why == (number == 0 ? "there is no room" : ""));
  CHECK(coordinator.unstarted().has_value() == (number > 0));
  if (number == 0) return;
  CHECK(coordinator.unstarted()->host == "b");
  CHECK(coordinator.unstarted()->why.message() == "there is no room");
  CHECK_FALSE(has_finished);
  Gone gone;
  gone.attempt = 2;
  gone.rank = 0;
  coordinator.on_frame(a.link, as_frame(gone));
  CHECK(has_finished);
  const Verdict verdict = coordinator.verdict();
  CHECK(verdict.host == "b");
  CHECK(verdict.message == "there is no room");
  CHECK(verdict.context == std::vector<std::string>{"host b"});
  CHECK(verdict.reason == "could not be started");
}

TEST_CASE("if all other machines are silent, the network of this one is suspected") {
  asio::io_context io;
  MergedOutput console(io, {});
  Coordinator* attempt = nullptr;
  AgentLink::Events events;
  events.lost = [&](AgentLink& link, const std::string& why) {
    attempt->on_lost(link, why);
    io.stop();
  };
  SilentAgent a(io, console, "a", events), b(io, console, "b", events);
  JobSpec spec;
  spec.num_workers = 2;
  Coordinator coordinator({io, spec, {}, [](const std::string&) {}, [](const Error&) {}, [] {}},
                          {{&a.link, 0, 1, {}}, {&b.link, 1, 1, {}}}, 0);
  attempt = &coordinator;
  const bool is_b_here = GENERATE(false, true);  // no other machine
  a.link.start_lease(std::chrono::seconds(2));
  if (!is_b_here) b.link.start_lease(std::chrono::seconds(2));
  coordinator.start();
  io.run();
  const Verdict verdict = coordinator.verdict();
  CHECK(verdict.exit_code == 6);
  CHECK(verdict.reason == "is lost: nothing has come from it for 2 s");
  CHECK(verdict.message == (is_b_here ? "" : "nothing has come from any host (a, b) for 2 s"));
  CHECK(has(verdict.hint, "the network of this machine, ") != is_b_here);
}

TEST_CASE("hosts that fall silent one after the other are all named in the end") {
  asio::io_context io;
  MergedOutput console(io, {});
  Coordinator* attempt = nullptr;
  AgentLink* next = nullptr;
  AgentLink::Events events;
  events.lost = [&](AgentLink& link, const std::string& why) {
    attempt->on_lost(link, why);
    if (!next) return io.stop();
    std::exchange(next, nullptr)->start_lease(std::chrono::seconds(1));
  };
  SilentAgent a(io, console, "a", events), b(io, console, "b", events);
  next = &b.link;
  JobSpec spec;
  spec.num_workers = 2;
  spec.argv = [](int) { return std::vector<std::string>{"/bin/true"}; };
  Coordinator coordinator({io, spec, {}, [](const std::string&) {}, [](const Error&) {}, [] {}},
                          {{&a.link, 0, 1, {}}, {&b.link, 1, 1, {}}}, 0);
  attempt = &coordinator;
  coordinator.start();
  coordinator.on_frame(a.link, as_frame(PortReserved{0, 29500}));
  a.link.start_lease(std::chrono::seconds(1));
  io.run();
  const Verdict verdict = coordinator.verdict();
  CHECK(verdict.host == "a");
  CHECK(verdict.lost_hosts == std::vector<std::string>{"b"});
  CHECK(verdict.message == "nothing has come from any host (a, b) for 1 s");
  CHECK(has(verdict.hint, "the network of this machine, "));
}

TEST_CASE("an agent is refused if it speaks of an attempt in which it has no part") {
  asio::io_context io;
  MergedOutput console(io, {});
  SilentAgent a(io, console, "a"), b(io, console, "b"), spare(io, console, "spare");
  JobSpec spec;
  spec.num_workers = 2;
  spec.argv = [](int) { return std::vector<std::string>{"/bin/true"}; };
  Coordinator coordinator({io, spec, {}, [](const std::string&) {}, [](const Error&) {}, [] {}},
                          {{&a.link, 0, 1, {}}, {&b.link, 1, 1, {}}}, 1);
  coordinator.start();
  const auto answer = [&](SilentAgent& agent, const auto& message) -> std::string {
    try {
      coordinator.on_frame(agent.link, as_frame(message));
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kPeer);
      return e.message();
    }
    return "";
  };
  const std::string no_ranks = "an agent spoke of an attempt in which it runs no ranks";
  CHECK(answer(spare, PortReserved{1, 29500}) == no_ranks);
  CHECK(answer(spare, not_spawned(1, Error(ErrorKind::kConfig, "no"))) == no_ranks);
  CHECK(answer(spare, AgentStoreSet{1, "key", "value"}) == no_ranks);
  CHECK(answer(spare, AgentStoreGet{1, "key"}) == no_ranks);
  CHECK(answer(spare, AgentStoreGet{0, "key"}) == "");  // of an attempt in which it had some
  const std::string not_asked = "an agent reserved a port that it was not asked for";
  CHECK(answer(b, PortReserved{1, 29500}) == not_asked);
  CHECK(answer(a, PortReserved{1, 29500}) == "");
  CHECK(answer(a, PortReserved{1, 29500}) == not_asked);
  CHECK(answer(a, AgentStoreSet{1, "key", "value"}) == "");
  b.received(io);
  CHECK(answer(b, AgentStoreGet{1, "key"}) == "");
  CHECK(b.received(io).back().kind == MessageKind::kAgentStoreValue);
}

TEST_CASE("the verdict has the failing rank's own words and exit code") {
  LauncherProcess launcher(
      {"--own", "--workers", "3", "--logs", "@logs", "--", LAUNCH_PROBE, "fail"});
  CHECK(launcher.wait() == 4);
  const auto failure = launcher.failure();
  CHECK(failure["rank"] == 1);
  CHECK(failure["message"] == "the token file is damaged");
  CHECK(failure["hint"] == "prepare it again");
  CHECK(failure["context"] == nlohmann::json{"train.bin"});
  CHECK(failure["stopped_ranks"] == 2);
}

TEST_CASE("ranks that only lost a peer are not to blame if one died of something else") {
  LauncherProcess launcher({"--own", "--workers", "3", "--", LAUNCH_PROBE, "blame"});
  CHECK(launcher.wait() == 128 + SIGSEGV);
  CHECK(launcher.failure()["rank"] == 1);
}

TEST_CASE("a rank that stands still while the others wait for it ends the run as a hang") {
  LauncherProcess launcher(
      {"--own", "--workers", "3", "--hang", "8000", "--grace", "5000", "--", LAUNCH_PROBE, "hang"});
  CHECK(launcher.wait() == 5);
  CHECK(launcher.failure()["rank"] == 1);
  CHECK(has(launcher.err(), "no progress for"));
  CHECK(has(launcher.err(), "rank 1 is in 'data' at step 0, collective 7"));
  CHECK(has(launcher.err(), "rank 0 is in 'all_reduce' at step 0, collective 8"));
  for (const char* line : {"[r0] asked for stacks of 0\n", "[r1] asked for stacks of 1\n"})
    CHECK(has(launcher.err(), line));
}

TEST_CASE("a rank that timed out waiting for another is not the one to blame") {
  LauncherProcess launcher({"--own", "--workers", "3", "--hang", "6000", "--grace", "100", "--",
                            LAUNCH_PROBE, "timeout"});
  CHECK(launcher.wait() == 5);
  CHECK(launcher.failure()["rank"] == 1);
}

TEST_CASE("a rank whose heartbeats stop ends the run as a hang, although the others continue") {
  LauncherProcess launcher({"--own", "--workers", "3", "--hang", "8000", "--grace", "100", "--",
                            LAUNCH_PROBE, "freeze"});
  CHECK(launcher.wait() == 5);
  CHECK(launcher.failure()["rank"] == 1);
  CHECK(has(launcher.err(), " has not answered for "));
}

TEST_CASE("a worker that is stopped before its hello ends the run after 30 s, whatever the limit") {
  LauncherProcess launcher({"--own", "--workers", "2", "--hang", "600000", "--grace", "100", "--",
                            "/bin/sh", "-c", "[ $RANK = 0 ] || kill -STOP $$; exec \"$0\" hang",
                            LAUNCH_PROBE});
  CHECK(launcher.wait() == 5);
  CHECK(launcher.failure()["rank"] == 1);
  CHECK(has(launcher.err(), "rank 1 has not answered for 3"));
}

TEST_CASE("a program that a signal has stopped ends the run after a while") {
  LauncherProcess launcher({"--workers", "2", "--hang", "1000", "--grace", "100", "--", "/bin/sh",
                            "-c", "echo pid=$$; [ $RANK = 0 ] || kill -STOP $$; exec sleep 1000"});
  CHECK(launcher.wait() == 5);
  CHECK(launcher.failure()["rank"] == 1);
  CHECK(has(launcher.err(), "rank 1 has been stopped by a signal for "));
  CHECK(all_end(launcher.numbers("pid")));
}

TEST_CASE("a process that does not belong to the job gets no control channel") {
  const std::string what = GENERATE("forged", "garbage", "oversized");
  SECTION("a worker of ours that talks so has failed") {
    LauncherProcess launcher(
        {"--own", "--workers", "2", "--grace", "100", "--", LAUNCH_PROBE, what});
    CHECK(launcher.wait() == 6);
    CHECK(has(launcher.err(), "broke the control channel"));
  }
  SECTION("any other program continues without a channel") {
    LauncherProcess launcher({"--", LAUNCH_PROBE, what});
    CHECK(eventually([&] { return has(launcher.err(), "control channel of rank 0 is closed"); }));
    launcher.kill(SIGTERM);
    CHECK(launcher.wait() == 128 + SIGTERM);
  }
}

TEST_CASE("a checkpoint is asked for by SIGUSR2, and nothing ends") {
  LauncherProcess launcher({"--own", "--", LAUNCH_PROBE, "checkpoint"});
  REQUIRE(eventually([&] { return has(launcher.err(), "event 0 started"); }));
  launcher.kill(SIGUSR2);
  CHECK(launcher.wait() == 0);
}

TEST_CASE("a stop ends workers that are still connecting, which have no step to finish") {
  LauncherProcess launcher({"--own", "--workers", "2", "--", LAUNCH_PROBE, "connect"});
  const bool knows = GENERATE(false, true);  // that a rank connects, when the stop comes
  REQUIRE(eventually([&] {
    return has(launcher.err(), knows ? R"({"phase":"connecting"})" : "event 1 spawned");
  }));
  launcher.kill(SIGTERM);
  CHECK(launcher.wait() == 75);
  CHECK(has(launcher.err(), "the ranks are still connecting: there is no step to finish"));
  CHECK(has(launcher.err(), "launcher: stopped by SIGTERM while its ranks were connecting\n"));
  if (knows) CHECK_FALSE(has(launcher.err(), "event -1 stopping"));
}

TEST_CASE("an event that cannot be parsed closes the channel, and is a failure") {
  LauncherProcess launcher({"--own", "--", LAUNCH_PROBE, "malformed"});
  CHECK(launcher.wait() == 6);
  CHECK(launcher.failure()["rank"] == 0);
  CHECK(
      has(launcher.err(),
          "a field of its event 'notice' is missing or wrong: type must be string, but is number"));
}
