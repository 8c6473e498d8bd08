#include <fstream>
#include <memory>

#include <fmt/format.h>

#include "hgtrain/base/host.h"
#include "hgtrain/launch/host_choice.h"

#include "launcher_process.h"
#include "listener.h"
#include "ports.h"

using namespace hgt;

namespace {

/// The nodes of one job, each a process of its own, on this machine.
struct Nodes {
  explicit Nodes(int number) : number(number) {}

  LauncherProcess& start(int node, std::vector<std::string> args,
                         const std::string& secret = "0123456789abcdef") {
    args.insert(args.begin(), {"--nodes", std::to_string(number), "--node", std::to_string(node),
                               "--port", std::to_string(port), "--secret", secret});
    launchers.push_back(std::make_unique<LauncherProcess>(args));
    return *launchers.back();
  }
  void start_all(const std::vector<std::string>& args) {
    for (int node = 0; node < number; ++node) start(node, args);
  }
  LauncherProcess& operator[](std::size_t node) { return *launchers[node]; }

  const int number;
  const MasterPort reserved{0};  // node 0 can listen on it, and nobody gets it first
  const int port = reserved.number();
  std::vector<std::unique_ptr<LauncherProcess>> launchers;
};

std::vector<std::string> script(const std::string& text,
                                std::vector<std::string> flags = {"--workers", "2"}) {
  flags.insert(flags.end(), {"--", "/bin/sh", "-c", text});
  return flags;
}

}  // namespace

TEST_CASE("nodes that start in any order meet, and their ranks know their places") {
  Nodes nodes(3);
  const auto job = script(
      "echo $RANK $LOCAL_RANK of $LOCAL_WORLD_SIZE, $NODE_RANK of $CROSS_SIZE, "
      "$WORLD_SIZE at $MASTER_ADDR:${MASTER_PORT:+port}");
  LauncherProcess& two = nodes.start(2, job);
  LauncherProcess& zero = nodes.start(0, job);
  LauncherProcess& one = nodes.start(1, job);
  CHECK(zero.wait() == 0);
  for (int rank = 0; rank < 6; ++rank)
    CHECK(has(zero.out(), fmt::format("[r{0}] {0} {1} of 2, {2} of 3, 6 at 127.0.0.1:port\n", rank,
                                      rank % 2, rank / 2)));
  for (LauncherProcess* const other : {&one, &two}) {
    CHECK(other->wait() == 0);
    CHECK(other->out() + other->err() ==
          fmt::format(
              "hgtrain: node {} has joined node 0 at 127.0.0.1:{}, which reports on the job\n",
              other == &one ? 1 : 2, nodes.port));
  }
}

TEST_CASE("nodes without a number are numbered as they join, and one more than wanted is refused") {
  Nodes nodes(3);
  const auto job =
      script("echo $NODE_RANK of $CROSS_SIZE; until [ -e \"$1\" ]; do sleep 0.01; done",
             {"--workers", "1"});
  auto words = job;
  const TemporaryFolder folder;
  words.insert(words.end(), {"sh", folder / "end"});
  LauncherProcess& zero = nodes.start(0, words);
  LauncherProcess& one = nodes.start(kAnyNode, words);
  LauncherProcess& two = nodes.start(kAnyNode, words);
  REQUIRE(zero.prints(" of 3\n", 3));
  LauncherProcess& more = nodes.start(kAnyNode, words);
  CHECK(more.wait() == 2);
  CHECK(has(more.err(), "refuses this node: all 3 nodes are here"));
  std::ofstream(folder / "end");
  for (LauncherProcess* const node : {&zero, &one, &two}) CHECK(node->wait() == 0);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(has(zero.out(), fmt::format("[r{0}] {0} of 3\n", rank)));
}

TEST_CASE("all nodes end with the exit code of the job; node 0 reports") {
  Nodes nodes(2);
  nodes.start_all(script("echo pid=$$; [ $RANK = 3 ] && exit 7; exec sleep 1000"));
  CHECK(nodes[0].wait() == 7);
  CHECK(nodes[1].wait() == 7);
  CHECK(nodes[0].failure()["rank"] == 3);
  CHECK(has(nodes[0].err(), "exited with code 7"));
  CHECK(all_end(nodes[0].numbers("pid")));
}

TEST_CASE("a job that cannot start ends on all nodes") {
  Nodes nodes(2);
  nodes.start_all({"--", "no_such_program"});
  CHECK(nodes[0].wait() == 2);
  CHECK(nodes[1].wait() == 2);
}

TEST_CASE("workers of ours on several nodes meet through the store") {
  Nodes nodes(2);
  nodes.start_all({"--own", "--workers", "2", "--", LAUNCH_PROBE, "meet"});
  CHECK(nodes[0].wait() == 0);
  for (const char* line : {"[r0] 0 got value of 3\n", "[r3] 3 got value of 0\n"})
    CHECK(has(nodes[0].out(), line));
}

TEST_CASE("a node that dies ends the job, and nothing is left of it") {
  Nodes nodes(2);
  nodes.start_all(script("echo pid=$$; exec sleep 1000"));
  REQUIRE(nodes[0].prints("pid=", 4));
  nodes[1].kill(SIGKILL);
  CHECK(nodes[0].wait() == 6);
  CHECK_FALSE(nodes[0].failure().contains("rank"));
  CHECK(has(nodes[0].err(), "is lost: its connection has ended"));
  CHECK(all_end(nodes[0].numbers("pid")));
}

TEST_CASE("if node 0 dies, the others kill their ranks and say so") {
  Nodes nodes(2);
  nodes.start_all(script("echo pid=$$; exec sleep 1000"));
  REQUIRE(nodes[0].prints("pid=", 4));
  nodes[0].kill(SIGKILL);
  CHECK(nodes[1].wait() == 6);
  CHECK(has(nodes[1].err(), "is lost: its connection has ended"));
  CHECK(all_end(nodes[0].numbers("pid")));
}

TEST_CASE("a signal at any node counts for the whole job, and only once if all nodes get it") {
  const std::string save =
      "trap 'echo saved $RANK; exit 75' TERM; echo ready $RANK; while :; do sleep 0.01; done";
  Nodes one_told(2);
  one_told.start_all(script(save));
  REQUIRE(one_told[0].prints("ready", 4));
  one_told[1].kill(SIGTERM);
  CHECK(one_told[0].wait() == 75);
  CHECK(one_told[1].wait() == 75);
  for (int rank = 0; rank < 4; ++rank) CHECK(has(one_told[0].out(), fmt::format("saved {}", rank)));

  Nodes all_told(2);
  all_told.start_all(script(
      "trap 'echo saved $RANK; exit 75' INT; echo ready $RANK; while :; do sleep 0.01; done"));
  REQUIRE(all_told[0].prints("ready", 4));
  all_told[1].kill(SIGINT);
  all_told[0].kill(SIGINT);
  CHECK(all_told[0].wait() == 75);  // a second Ctrl-C would have killed them
  CHECK(all_told[1].wait() == 75);
}

TEST_CASE("a signal stops workers of ours on all nodes with a checkpoint") {
  Nodes nodes(2);
  nodes.start_all({"--own", "--workers", "2", "--", LAUNCH_PROBE, "stop"});
  REQUIRE(eventually([&] { return has(nodes[0].err(), "event 3 heartbeat"); }));
  nodes[1].kill(SIGUSR1);
  CHECK(nodes[0].wait() == 75);
  CHECK(nodes[1].wait() == 75);
}

TEST_CASE("nodes that do not find each other say so at the end of the join timeout") {
  const std::string another = "another secret!!!!!!";
  Nodes nodes(2), left(2), alone(2);
  nodes.start(0, script("true", {"--join", "8"}));
  left.start(0, script("true", {"--join", "4"}));
  for (const Nodes* const job : {&nodes, &left})
    REQUIRE(eventually([&] { return !port_user(job->port).empty(); }));
  nodes.start(1, script("true", {"--join", "5"}), another);
  left.start(1, script("true", {"--join", "7"}), another);
  alone.start(1, script("true", {"--join", "1"}));
  CHECK(nodes[0].wait() == 6);
  const std::string dialled = "127.0.0.1 has dialled with another job secret\"";
  CHECK(nodes[0].err().find(dialled) != std::string::npos);
  CHECK(nodes[0].err().find(dialled) == nodes[0].err().rfind(dialled));
  CHECK(has(nodes[0].err(),
            "it has not joined within 8 s; dialled with another job secret: 127.0.0.1"));
  CHECK(nodes[1].wait() == 6);
  CHECK(has(nodes[0].err(), "hint: give all nodes the same job secret\n"));
  CHECK(has(nodes[1].err(), "has not reached node 0 at 127.0.0.1:"));
  const std::string stranger = "what listens there does not know this job's secret";
  CHECK(has(nodes[1].err(), "within 5 s: " + stranger + "\n  hint: give all nodes the same"));
  CHECK(left[1].wait() == 6);
  CHECK(has(left[1].err(), "within 7 s: Connection refused; before, " + stranger +
                               "\n  hint: give all nodes the same"));
  CHECK(alone[0].wait() == 6);
  CHECK(has(alone[0].err(), "Connection refused"));
}

TEST_CASE("a node that dials something silent is not kept beyond its join timeout, and says so") {
  Nodes nodes(2);
  const Listener silent(nodes.port);
  const auto start = std::chrono::steady_clock::now();
  CHECK(nodes.start(1, script("true", {"--join", "1"})).wait() == 6);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(has(nodes[0].err(),
            "within 1 s: something listens there, but does not answer\n"
            "  hint: node 0 must run there, with the same --master_port\n"));
}

TEST_CASE(
    "a job starts without nodes that it does not need, which join later, leave and come back") {
  Nodes nodes(2);
  const auto start = [&](int node, const char* join_timeout) -> LauncherProcess& {
    return nodes.start(
        node, {"--own", "--min_hosts", "1", "--lease", "5000", "--join", join_timeout, "--setting",
               fmt::format("--max_restarts={}", 3 * node), "--", LAUNCH_PROBE, "join"});
  };
  LauncherProcess& zero = start(0, "1");
  REQUIRE(zero.prints("attempt 0, rank 0 of 1"));
  CHECK(has(zero.err(), "enough nodes are here; waiting up to 1 s for others: ?"));
  CHECK(has(zero.err(), "host ? cannot be used: it has not joined yet"));
  CHECK(has(zero.err(), "running 1 rank on 1 of 2 hosts"));
  LauncherProcess& lost = start(1, "100");
  REQUIRE(zero.prints("attempt 1, ", 2));
  lost.kill(SIGKILL);
  REQUIRE(zero.prints("attempt 2, rank 0 of 1"));
  LauncherProcess& back = start(1, "100");
  CHECK(zero.wait() == 0);
  CHECK(back.wait() == 0);
  CHECK(zero.prints("attempt 3, ", 2));
  CHECK(has(zero.err(), "can be used now: it joins after the next checkpoint"));
  const std::string err = zero.err(), differs = "--max_restarts is 3 there";
  CHECK(has(err, differs));
  CHECK(err.find(differs) == err.rfind(differs));  // although the node came twice
  CHECK(zero.verdict()["world_size"] == 2);
}

TEST_CASE("a node that has lost node 0 and joins again says both") {
  Nodes nodes(2);
  const auto job = [](const std::string& text) {
    return script(text, {"--min_hosts", "2", "--lease", "5000", "--join", "60"});
  };
  LauncherProcess& lost = nodes.start(0, job("echo ready $RANK; exec sleep 1000"));
  LauncherProcess& one = nodes.start(1, job("true"));
  REQUIRE(lost.prints("ready", 2));
  lost.kill(SIGKILL);
  const std::string place = fmt::format("node 0 at 127.0.0.1:{} ", nodes.port);
  REQUIRE(eventually([&] { return has(one.err(), place + "is lost: "); }));
  CHECK(nodes.start(0, job("true")).wait() == 0);
  CHECK(one.wait() == 0);
  CHECK(has(one.err(), "hgtrain: node 1 has joined " + place + "again\n"));
}

TEST_CASE("a node that gave node 0 up, which stood still, learns how the job has ended meanwhile") {
  Nodes nodes(2);
  const TemporaryFolder folder;
  const auto job =
      script("echo ready $RANK; until [ -e " + (folder / "end") + " ]; do sleep 0.01; done",
             {"--min_hosts", "2", "--lease", "5000", "--join", "60"});
  LauncherProcess& zero = nodes.start(0, job);
  LauncherProcess& one = nodes.start(1, job);
  REQUIRE(zero.prints("ready", 2));
  zero.kill(SIGSTOP);
  std::ofstream(folder / "end");
  const bool is_lost = eventually([&] { return has(one.err(), "is lost: "); });
  zero.kill(SIGCONT);
  REQUIRE(is_lost);
  CHECK(zero.wait() == 0);
  CHECK(one.wait() == 0);
  CHECK_FALSE(has(zero.err(), "restarting"));
  CHECK(has(one.err(), fmt::format("the job of node 0 at 127.0.0.1:{} has ended already, with exit "
                                   "code 0",
                                   nodes.port)));
}

TEST_CASE("a node that is left out is told so, and ends with the job") {
  Nodes nodes(2);
  const std::vector<std::string> job = {"--own",  "--min_hosts", "1",  "--lease",    "5000",
                                        "--join", "100",         "--", LAUNCH_PROBE, "other_data"};
  auto first = job;
  first[6] = "1";
  LauncherProcess& zero = nodes.start(0, first);
  REQUIRE(eventually([&] { return has(zero.err(), "running 1 rank on 1 of 2 hosts"); }));
  LauncherProcess& one = nodes.start(1, job);
  CHECK(one.wait() == 0);
  CHECK(zero.wait() == 0);
  CHECK(has(one.err(),
            "this node is left out for the rest of the job: rank 1 failed: the data differ"));
  CHECK_FALSE(has(one.err(), "is lost"));
}

TEST_CASE("a signal ends a node that runs no ranks, and not the job") {
  Nodes nodes(2);
  const TemporaryFolder folder;
  const auto job = script("echo ready; until [ -e " + (folder / "end") + " ]; do sleep 0.01; done",
                          {"--workers", "1", "--min_hosts", "1", "--lease", "5000", "--join", "1"});
  LauncherProcess& zero = nodes.start(0, job);
  REQUIRE(zero.prints("ready"));
  LauncherProcess& one = nodes.start(1, job);
  REQUIRE(eventually([&] { return has(zero.err(), "can be used now"); }));
  one.kill(SIGUSR1);
  CHECK(eventually(
      [&] { return has(zero.err(), " (node 1) has no effect, because no rank runs there"); }));
  one.kill(SIGTERM);
  CHECK(one.wait() == 143);
  CHECK(eventually([&] { return has(zero.err(), "cannot be used: SIGTERM came there"); }));
  std::ofstream(folder / "end");
  CHECK(zero.wait() == 0);
}

TEST_CASE("a node without ranks that ends while the job is stopped is not named") {
  Nodes nodes(2);
  const TemporaryFolder folder;
  const auto job = script("trap 'until [ -e " + (folder / "end") +
                              " ]; do sleep 0.01; done; exit 0' TERM; echo ready; "
                              "while :; do sleep 0.01; done",
                          {"--workers", "1", "--min_hosts", "1", "--lease", "5000", "--join", "1"});
  LauncherProcess& zero = nodes.start(0, job);
  REQUIRE(zero.prints("ready"));
  LauncherProcess& one = nodes.start(1, job);
  REQUIRE(eventually([&] { return has(zero.err(), "can be used now"); }));
  zero.kill(SIGTERM);
  REQUIRE(eventually([&] { return has(zero.err(), "event -1 stopping"); }));
  one.kill(SIGTERM);
  CHECK(one.wait() == 143);
  std::ofstream(folder / "end");
  CHECK(zero.wait() == 0);
  CHECK_FALSE(has(zero.err(), "SIGTERM came there"));
}

TEST_CASE("a job that has too few nodes waits for others, but not for ever") {
  Nodes few(3);
  few.start(0, script("true", {"--min_hosts", "2", "--join", "1"}));
  CHECK(few[0].wait() == 6);
  CHECK(has(few[0].err(), "it has not joined within 1 s"));
  Nodes nodes(3);
  nodes.start_all(script("echo ready $RANK; exec sleep 1000",
                         {"--min_hosts", "3", "--lease", "5000", "--join", "12"}));
  REQUIRE(nodes[0].prints("ready", 3));
  nodes[2].kill(SIGKILL);
  const auto says = [&](const std::string& text) {
    return eventually([&] { return has(nodes[0].err(), text); });
  };
  const std::string one = host_name() + " (node 1)", two = host_name() + " (node 2)";
  REQUIRE(says("too few nodes are left: waiting up to 12 s for " + two + " to join again"));
  nodes[1].kill(SIGKILL);
  CHECK(says("host " + one + " has left while the job waited to restart: "));
  CHECK(nodes[0].wait() == 6);
  const std::string err = nodes[0].err(),
                    waiting = fmt::format("waiting for {}, {} to join", one, two);
  CHECK(has(err, waiting));
  CHECK(err.find(" to join on port ") == err.rfind(" to join on port "));
  CHECK(has(err, "no restart: host "));
}

TEST_CASE(
    "a node that does not fit is refused with the reason, and the job waits for the right one") {
  Nodes nodes(3);
  const auto job = script("true");
  LauncherProcess& zero = nodes.start(0, job);
  const auto refused = [&](const std::vector<std::string>& args, const std::string& why) {
    LauncherProcess launcher(args);
    CHECK(launcher.wait() == 2);
    CHECK(has(launcher.err(), "refuses node"));
    CHECK(has(launcher.err(), why));
  };
  const auto args = [&](const char* number, const char* node, const char* workers) {
    return std::vector<std::string>{"--nodes",   number,
                                    "--node",    node,
                                    "--workers", workers,
                                    "--port",    std::to_string(nodes.port),
                                    "--secret",  "0123456789abcdef",
                                    "--",        "/bin/true"};
  };
  refused(args("2", "1", "2"), "it expects 2 nodes, and node 0 expects 3");
  refused(args("3", "1", "4"), "it starts 4 workers, and node 0 expects 2 of it");
  LauncherProcess& one = nodes.start(1, job);
  LauncherProcess& again = nodes.start(1, job);
  REQUIRE(eventually([&] { return !is_alive(one.pid()) || !is_alive(again.pid()); }));
  LauncherProcess& second = is_alive(one.pid()) ? again : one;
  CHECK(second.wait() == 2);
  CHECK(has(second.err(), "there is a node 1 already"));
  nodes.start(2, job);
  CHECK(zero.wait() == 0);
  for (std::size_t i = 1; i < nodes.launchers.size(); ++i)
    if (&nodes[i] != &second) CHECK(nodes[i].wait() == 0);
}

TEST_CASE("what node 0 alone decides, and another node has otherwise, is named") {
  Nodes nodes(2);
  nodes.start(0, script("true", {"--setting", "--max_restarts=0", "--setting", "--run_dir=run"}));
  nodes.start(1, script("true", {"--setting", "--max_restarts=3", "--setting", "--log_dir=logs"}));
  CHECK(nodes[0].wait() == 0);
  CHECK(nodes[1].wait() == 0);
  CHECK(has(nodes[0].err(), "node 1 on " + host_name() +
                                " (127.0.0.1): --max_restarts is 3 there "
                                "and 0 on node 0; node 0's counts"));
  CHECK(has(nodes[0].err(), "--log_dir is logs there and not given on node 0; node 0's counts"));
  CHECK_FALSE(has(nodes[0].err(), "--run_dir"));
}

TEST_CASE("keys that a node's config has otherwise are named, and node 0's count") {
  Nodes nodes(3);
  nodes.start(0, script("true", {"--key", "lr=0.003"}));
  nodes.start(1, script("true", {"--key", "lr=1"}));
  nodes.start(2, script("true", {}));  // without a config
  for (std::size_t node = 0; node < 3; ++node) CHECK(nodes[node].wait() == 0);
  CHECK(has(nodes[0].err(),
            "its config is written otherwise: lr is 1 there and 0.003 on node 0; "
            "node 0's counts"));
  CHECK_FALSE(has(nodes[0].err(), "lr is not given there"));
}

TEST_CASE("if a node is refused, node 0 says so again if nobody else joins") {
  Nodes nodes(2);
  nodes.start(0, script("true", {"--join", "8", "--workers", "2"}));
  nodes.start(1, script("true", {"--workers", "4"}));
  const std::string why = "it starts 4 workers, and node 0 expects 2 of it";
  CHECK(nodes[1].wait() == 2);
  CHECK(has(nodes[1].err(), "refuses node 1: " + why));
  CHECK(nodes[0].wait() == 6);
  CHECK(has(nodes[0].err(), "cannot be used: it has not joined within 8 s; node 1 on " +
                                host_name() + " (127.0.0.1) is refused: " + why));
}

TEST_CASE("that a node was refused is not said of one that has joined since") {
  Nodes nodes(2);
  nodes.start(0, script("echo up $RANK; exec sleep 1000",
                        {"--join", "8", "--workers", "2", "--min_hosts", "2", "--lease", "5000"}));
  CHECK(nodes.start(1, script("true", {"--workers", "4"})).wait() == 2);
  nodes.start(1, script("echo up $RANK; exec sleep 1000", {"--workers", "2", "--lease", "5000"}));
  REQUIRE(nodes[0].prints("up ", 4));
  nodes[2].kill(SIGKILL);
  CHECK(nodes[0].wait() == 6);
  CHECK(has(nodes[0].err(), "it has not joined within 8 s"));
  CHECK_FALSE(has(nodes[0].err(), "it has not joined within 8 s; node 1 on "));
}

TEST_CASE(
    "a signal ends a node that waits for node 0 with a line that says so, and saves nothing") {
  const auto catches = [](const LauncherProcess& node, int signal) {
    return eventually([&] {
      const std::string status = contents(fmt::format("/proc/{}/status", node.pid()));
      const std::size_t at = status.find("SigCgt:");
      return at != std::string::npos &&
             (std::stoull(status.substr(at + 7), nullptr, 16) >> (signal - 1) & 1) != 0;
    });
  };
  const auto ends = [&](std::vector<std::string> flags, const char* no_effect, int ignored,
                        int signal, const char* name) {
    Nodes nodes(2);
    flags.insert(flags.end(), {"--", LAUNCH_PROBE, "stop"});
    LauncherProcess& node = nodes.start(1, flags);
    REQUIRE(catches(node, SIGUSR2));
    node.kill(ignored);
    CHECK(eventually([&] {
      return has(node.err(),
                 fmt::format("{} has no effect, because no rank runs now\n", no_effect));
    }));
    node.kill(signal);
    const int code = node.wait();
    CHECK(has(node.err(), fmt::format("hgtrain: stopped by {} while node 1 waited for node 0 at "
                                      "127.0.0.1:{}\n",
                                      name, nodes.port)));
    return code;
  };
  CHECK(ends({"--own"}, "SIGUSR2", SIGUSR2, SIGUSR1, "SIGUSR1") == 75);
  CHECK(ends({"--own"}, "SIGUSR2", SIGUSR2, SIGTERM, "SIGTERM") == 75);
  CHECK(ends({"--own"}, "SIGUSR2", SIGUSR2, SIGINT, "SIGINT") == 75);
  CHECK(ends({}, "SIGUSR1", SIGUSR1, SIGINT, "SIGINT") == 130);
  CHECK(ends({}, "SIGUSR1", SIGUSR1, SIGTERM, "SIGTERM") == 143);
}
