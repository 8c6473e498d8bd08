#include "local_ranks.h"

#include <thread>

#include <asio/post.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"

#include "agent_host.h"
#include "children.h"
#include "merged_output.h"
#include "stopped_tracer.h"
#include "support/standing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

// LocalRanks through the agent that owns them: what they report, and the orders that they get.

TEST_CASE("a rank that cannot start is an error, and the ranks before it do not run on") {
  AgentHost host;
  TemporaryFolder folder;
  Spawn order = shell_ranks("echo pid=$$; sleep 1000", 2);
  SECTION("its program") {
    order.argv = {"no-such-program"};
    host.link->send(order);
    CHECK(error_in(host.wait_for<NotSpawned>()).kind() == ErrorKind::kConfig);
  }
  SECTION("its log") {
    order.log_dir = folder.path();
    make_folders(folder / "rank_1.log");
    host.link->send(order);
    CHECK(error_in(host.wait_for<NotSpawned>()).kind() == ErrorKind::kData);
  }
  CHECK(host.all<Spawned>().empty());
  CHECK(host.all<Ended>().empty());
}

TEST_CASE("the report of an end says whether a signal of the launcher came before it") {
  AgentHost host;
  host.link->send(
      shell_ranks("trap 'echo mine=1' USR1; echo ready $RANK; while :; do wait; done", 2));
  host.run_until([&] { return host.printed().find("ready 1") != std::string::npos; });
  host.link->send(SignalRanks{0, 1, SIGUSR1, /*excuses=*/false});
  host.number("mine");
  for (const auto& spawned : host.all<Spawned>())
    if (spawned.rank == 1) kill(static_cast<pid_t>(spawned.pid), SIGSEGV);
  const Ended own = host.wait_for<Ended>();
  CHECK(own.rank == 1);
  CHECK(WTERMSIG(own.wait_status) == SIGSEGV);
  CHECK_FALSE(own.signalled);
  host.link->send(SignalRanks{0, kAllRanks, SIGTERM});
  const Ended ours = host.wait_for<Ended>(2);
  CHECK(ours.rank == 0);
  CHECK(ours.signalled);
}

TEST_CASE("the loop runs between two ranks that start, so that others hear of this host") {
  AgentHost host;
  host.link->send(shell_ranks("exit 0", 8));
  int turns = 0;
  std::function<void()> count = [&] {
    ++turns;
    if (host.all<Spawned>().empty()) asio::post(host.io, count);
  };
  count();
  host.wait_for<Gone>(8);
  CHECK(turns > 8);
  CHECK(host.all<Spawned>().size() == 8);
}

TEST_CASE("what is asked of ranks while they start waits until all have started") {
  AgentHost host;
  host.link->send(shell_ranks("exec sleep 1000", 8));
  host.link->send(SignalRanks{0, kAllRanks, SIGKILL});
  host.wait_for<Gone>(8);
  for (const Ended& end : host.all<Ended>()) CHECK(WTERMSIG(end.wait_status) == SIGKILL);
  CHECK(host.all<Ended>().size() == 8);
}

TEST_CASE("if the stream ends while ranks start, no more are started, and all are killed") {
  const std::size_t before = children().size();
  AgentHost host;
  host.link->send(shell_ranks("exec sleep 1000", 500));
  host.run_until([&] { return children().size() > before + 2; });
  host.link->close();
  host.run_until([&] { return host.ended.has_value(); });
  CHECK(children().size() == before);
}

TEST_CASE("a rank that somebody has stopped is named, with the command that continues it") {
  AgentHost host;
  host.link->send(shell_ranks("echo pid=$$; kill -STOP $$; exit 3"));
  const pid_t worker = host.number("pid");
  CHECK(host.wait_for<Notice>().text.find("rank 0 has been stopped by a signal; on ") == 0);
  CHECK(host.all<Notice>()[0].text.find(fmt::format("`kill -CONT {}`", worker)) !=
        std::string::npos);
  CHECK(host.wait_for<RankStopped>().stopped);
  kill(worker, SIGCONT);
  CHECK(WEXITSTATUS(host.wait_for<Ended>().wait_status) == 3);
}

TEST_CASE("a rank is gone with its last lines and the message of its error file") {
  AgentHost host;
  TemporaryFolder folder;
  Spawn order = shell_ranks(
      "echo first; echo '{\"message\": \"the loss is nan\"}' > $TORCHELASTIC_ERROR_FILE; exit 1");
  order.log_dir = folder.path();
  host.link->send(order);
  const Gone gone = host.wait_for<Gone>();
  CHECK(gone.last_lines == std::vector<std::string>{"first"});
  CHECK(gone.error_message == "the loss is nan");
}

TEST_CASE("what ranks store for each other stays on the host, and is reported upstream once") {
  AgentHost host;
  Spawn order;
  order.argv = {LAUNCH_PROBE, "meet"};
  order.world_size = 3;
  order.num_ranks = 2;
  order.own_workers = true;
  order.shown_stdout = order.shown_stderr = "all";
  host.link->send(order);
  const auto asked_for = [&](const std::string& key) {
    const auto gets = host.all<AgentStoreGet>();
    return std::count_if(gets.begin(), gets.end(), [&](const auto& get) { return get.key == key; });
  };
  host.run_until([&] { return asked_for("rank2") > 0; });  // of another host
  host.link->send(AgentStoreValue{0, "rank2", "from afar"});
  host.wait_for<Gone>(2);
  CHECK(host.all<AgentStoreSet>().size() == 2);
  CHECK(asked_for("rank2") == 1);
  for (const char* line :
       {"0 got value of 1\n", "1 got value of 0\n", "0 got from afar\n", "1 got from afar\n"})
    CHECK(host.printed().find(line) != std::string::npos);
}

TEST_CASE("a rank's heartbeats and events are passed on, and its channel can be closed") {
  AgentHost host;
  Spawn order;
  order.argv = {LAUNCH_PROBE, "stop"};
  order.own_workers = true;
  host.link->send(order);
  const RankEvent event = host.wait_for<RankEvent>();
  CHECK(event.name == "started");
  CHECK(nlohmann::json::parse(event.body)["step"] == 0);
  CHECK(host.wait_for<RankHeartbeat>().beat.phase == "starting");
  SECTION("a command reaches it") {
    host.link->send(RankCommand{0, 0, encode_frame(MessageKind::kStop, "")});
    CHECK(WEXITSTATUS(host.wait_for<Ended>().wait_status) == 75);
  }
  SECTION("without a channel none does") {
    host.link->send(CloseChannel{0, 0});
    host.link->send(RankCommand{0, 0, encode_frame(MessageKind::kStop, "")});
    host.link->send(SignalRanks{0, 0, SIGKILL});
    CHECK(WTERMSIG(host.wait_for<Ended>().wait_status) == SIGKILL);
  }
}

TEST_CASE("a guard that somebody has stopped is continued, so that its worker's end is known") {
  AgentHost host;
  host.link->send(shell_ranks("sleep 1000 & echo pid=$$; echo guard=$PPID; wait"));
  const pid_t worker = host.number("pid"), guard = host.number("guard");
  kill(guard, SIGSTOP);
  REQUIRE(eventually([&] {
    return contents("/proc/" + std::to_string(guard) + "/stat").find(") T") != std::string::npos;
  }));
  kill(worker, SIGKILL);  // its child holds the output open
  CHECK(WTERMSIG(host.wait_for<Ended>().wait_status) == SIGKILL);
  host.wait_for<Gone>();
}

TEST_CASE("what a debugger holds when its guard is killed is named, and keeps nobody waiting") {
  const Subreaping subreaping;
  AgentHost host;
  host.link->send(shell_ranks("echo pid=$$; echo guard=$PPID; exec sleep 1000"));
  const pid_t worker = host.number("pid"), guard = host.number("guard");
  StoppedTracer tracer(worker);
  host.agent_keeps.insert(tracer.pid());
  kill(guard, SIGKILL);
  CHECK(host.wait_for<Ended>().lost_guard);
  CHECK(has(host.wait_for<Notice>().text,
            "a debugger or the kernel holds them: " + std::to_string(worker)));
  tracer.end();
  host.wait_for<Gone>();
  CHECK(kill_other_children({}).empty());
}

TEST_CASE("a host that has stood still for its lease starts no ranks") {
  asio::io_context io;
  StreamPair stream;
  FrameLink link(io, std::move(stream.in[0]), std::move(stream.out[0]), {});
  MergedOutput console(io, {});
  WriterThread logs(io, [] {});
  Lease lease(io, link, "the launcher", Lease::Standstill::kCounts, [] {});
  std::string why;
  LocalRanks ranks({.io = io,
                    .link = link,
                    .console = console,
                    .logs = logs,
                    .others = [] { return std::set<pid_t>(); },
                    .lease = lease,
                    .cannot_start = [&](const Error& error) { why = error.message(); },
                    .gone = [] {}},
                   shell_ranks("exit 0"));
  lease.start(std::chrono::milliseconds(50));
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  ranks.start();
  CHECK(has(why, "it stood still for too long"));
  CHECK(ranks.are_gone());
}

TEST_CASE("a disk of the logs that stands still delays no message, and costs no line") {
  TemporaryFolder folder;
  StandingFileOps disk;
  {
    AgentHost host;
    const FileOpsOverride override(disk);
    Spawn order = shell_ranks("echo a line; kill -9 $$");
    order.log_dir = folder.path();
    host.link->send(Welcome{60'000});
    host.link->send(order);
    CHECK(WTERMSIG(host.wait_for<Ended>().wait_status) == SIGKILL);
    const std::size_t beats = host.all<Beat>().size();
    CHECK(host.wait_for<Gone>().last_lines == std::vector<std::string>{"a line"});
    CHECK(host.all<Beat>().size() > beats);
    CHECK(has(host.wait_for<Notice>().text, "rank_0.log is not written to its end yet"));
    CHECK(contents(folder / "rank_0.log").empty());
    disk.go_on();
  }
  CHECK(contents(folder / "rank_0.log") == "a line\n");
}
