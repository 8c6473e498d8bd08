#include "agent.h"

#include <chrono>

#include "hgtrain/base/clock.h"

#include "agent_host.h"
#include "listener.h"

using namespace hgt;

TEST_CASE("an agent starts its ranks, passes their output on, and says when nothing is left") {
  AgentHost host;
  host.link->send(shell_ranks("echo I am $RANK of $WORLD_SIZE", 2));
  host.wait_for<Gone>(2);
  CHECK(host.all<Spawned>().size() == 2);
  CHECK(host.all<Ended>().size() == 2);
  for (const char* line : {"I am 0 of 2\n", "I am 1 of 2\n"})
    CHECK(host.printed().find(line) != std::string::npos);
}

TEST_CASE(
    "the port is kept by the agent, and one that is taken is an error with the owner's name") {
  AgentHost host;
  host.link->send(ReservePort{0, 0});
  CHECK(host.wait_for<PortReserved>().port > 0);
  const Listener stranger(0);
  host.link->send(ReservePort{1, stranger.port()});
  const NotSpawned refused = host.wait_for<NotSpawned>();
  CHECK(refused.attempt == 1);
  CHECK(error_in(refused).kind() == ErrorKind::kDevice);
  CHECK(refused.message.find("launch_test") != std::string::npos);
}

TEST_CASE("what belongs to another attempt is ignored, and a new attempt ends what was there") {
  AgentHost host;
  Spawn order = shell_ranks("echo pid=$$; exec sleep 1000");
  order.attempt = 1;
  host.link->send(order);
  const pid_t first = host.number("pid");
  host.link->send(SignalRanks{0, kAllRanks, SIGKILL});
  order.attempt = 2;
  order.argv.back() = "exit 3";
  host.link->send(order);
  CHECK(host.wait_for<Ended>().attempt == 2);
  CHECK(WEXITSTATUS(host.all<Ended>()[0].wait_status) == 3);
  CHECK(eventually([&] { return !is_alive(first); }));
}

TEST_CASE("the end of the stream is the end of all ranks, at once, also if a guard is stopped") {
  AgentHost host;
  host.link->send(
      shell_ranks("trap '' TERM; echo pid=$$; echo guard=$PPID; while :; do wait; done"));
  const pid_t worker = host.number("pid"), guard = host.number("guard");
  if (GENERATE(false, true)) kill(guard, SIGSTOP);
  host.link->close();
  host.run_until([&] { return host.ended.has_value(); });
  CHECK(host.ended == "its connection has ended");
  CHECK_FALSE(is_alive(worker));
  CHECK_FALSE(is_alive(guard));
}

TEST_CASE("a coordinator that is silent for the lease is the end of all ranks") {
  AgentHost host(std::chrono::milliseconds(5000));
  host.link->send(shell_ranks("trap '' TERM; echo pid=$$; while :; do sleep 1; done"));
  const pid_t worker = host.number("pid");
  CHECK_FALSE(host.all<Beat>().empty());
  host.run_until([&] { return host.ended.has_value(); });
  CHECK(host.ended == "nothing has come from it for 5 s");
  CHECK_FALSE(is_alive(worker));
}

TEST_CASE("an agent that stood still blames no rank that a guard has killed for that") {
  constexpr std::chrono::milliseconds kLease(3000);
  AgentHost host(kLease);
  host.link->send(shell_ranks("echo pid=$$; exec sleep 1000"));
  const pid_t worker = host.number("pid");
  const std::int64_t begin_ns = now_ns();
  CHECK(eventually([&] { return !is_alive(worker); }));
  const std::chrono::nanoseconds stood_still(now_ns() - begin_ns);
  host.run_until([&] { return host.ended.has_value(); });
  // Otherwise the worker had taken most of the lease to print its number.
  if (stood_still > kLease * 9 / 10)
    CHECK(host.ended->starts_with("this process was stopped for "));
  CHECK(host.all<Ended>().empty());
}

TEST_CASE("an agent reads no more of the output than the console takes") {
  AgentHost host;
  host.link->send(shell_ranks("head -c 10000000 /dev/zero; echo the end"));
  host.run_until([&] { return host.printed().size() >= 1 << 20; });
  CHECK(host.printed().size() < 2 << 20);  // the window, and a read that was on its way
  std::size_t shown = 0;
  while (host.all<Gone>().empty()) {
    const std::size_t printed = host.printed().size();
    if (printed > shown) host.link->send(Credit{static_cast<std::uint32_t>(printed - shown)});
    shown = printed;
    host.io.run_one();
  }
  CHECK(host.printed().size() == 10'000'000 + 8);
}

TEST_CASE("heartbeats come although a rank prints without end and the console takes nothing") {
  AgentHost host;
  Spawn order;
  order.argv = {LAUNCH_PROBE, "flood"};
  order.own_workers = true;
  order.shown_stdout = order.shown_stderr = "all";
  host.link->send(order);
  host.run_until([&] { return host.printed().size() >= 1 << 20; });
  const std::size_t before = host.all<RankHeartbeat>().size();
  host.wait_for<RankHeartbeat>(before + 3);
  CHECK(host.printed().size() < 2 << 20);
}

TEST_CASE("an agent that gets a message that is not for agents closes the stream") {
  AgentHost host;
  SECTION("a message of its own") {
    host.link->send(Notice{"hello"});
  }
  SECTION("half a message") {
    host.link->send(MessageKind::kSpawn, "half");
  }
  host.run_until([&] { return host.ended && host.lost; });
  CHECK(host.ended != "its connection has ended");
}

TEST_CASE("what a host is like is told after its devices are known, and nothing waits for those") {
  AgentHost host;
  host.link->send(Inspect{});
  host.link->send(shell_ranks("echo pid=$$"));
  host.wait_for<Gone>();
  CHECK(host.all<HostFacts>().empty());
  host.agent.say_hello({});
  host.wait_for<HostFacts>();
  CHECK(host.all<AgentHello>().size() == 1);
}
