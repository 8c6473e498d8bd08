#include "joining_nodes.h"

#include <thread>

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"

#include "agent_host.h"
#include "merged_output.h"
#include "support/refusal.h"

using namespace hgt;

namespace {

using State = Candidate::State;

/// Node 0 of three, which are to run two workers each.
std::vector<RosterHost> three_nodes() {
  std::vector<RosterHost> out(3);
  for (RosterHost& host : out) host.spec.workers = 2;
  return out;
}

Newcomer newcomer(int node, int num_nodes, int workers) {
  Newcomer out;
  out.join.node = node;
  out.join.num_nodes = num_nodes;
  out.join.workers = workers;
  return out;
}

struct Waiting {
  explicit Waiting(std::vector<RosterHost> nodes, const std::string& address = "127.0.0.1",
                   std::chrono::seconds join_timeout = std::chrono::seconds(0))
      : hosts(std::move(nodes)),
        rendezvous{.address = address,
                   .port = 0,
                   .secret = "the secret of a job, long enough",
                   .join_timeout = join_timeout} {}

  asio::io_context io;
  std::vector<RosterHost> hosts;
  std::vector<std::string> missing, notices;
  Rendezvous rendezvous;
  JoiningNodes nodes{io,
                     hosts,
                     rendezvous,
                     {[](RosterHost&) { return true; }, [](RosterHost&, OwnedFd, OwnedFd) {},
                      [this](RosterHost& host, const std::string& why) {
                        missing.push_back(host.spec.name + ": " + why);
                        host.state = State::kAway;
                      },
                      [this](const std::string& text) { notices.push_back(text); }}};
};

}  // namespace

TEST_CASE("a node may join if its number is free and its settings agree with node 0's") {
  const auto hosts = three_nodes();
  const auto why = [&](int node, int workers) {
    return why_refused(newcomer(node, 3, workers).join, hosts);
  };
  CHECK(why(1, 2) == "");
  CHECK(why(2, 0) == "");
  CHECK(has(why(0, 2), "have the numbers 1 to 2"));
  CHECK(has(why(3, 2), "have the numbers 1 to 2"));
  CHECK(has(why(1, 4), "it starts 4 workers"));
}

TEST_CASE("a node of another version, run or number of nodes belongs to another job") {
  CHECK(why_of_another_job(newcomer(1, 3, 2), 3, {}) == "");
  CHECK(has(why_of_another_job(newcomer(1, 4, 2), 3, {}),
            "it expects 4 nodes, and node 0 expects 3"));
  Newcomer other = newcomer(1, 3, 2);
  other.join.settings["--rdzv_id"] = "101";
  CHECK(why_of_another_job(other, 3, {{"--rdzv_id", "101"}}) == "");
  CHECK(why_of_another_job(other, 3, {{"--rdzv_id", "100"}}) ==
        "it belongs to the run 101 (--rdzv_id), and node 0 to 100");
  other.is_readable = false;
  CHECK(has(why_of_another_job(other, 3, {}), "another version"));
}

TEST_CASE("nodes on one host are distinguished by their numbers") {
  auto hosts = three_nodes();
  hosts[0].spec.name = "vm";
  Join join;
  join.host = "vm";
  CHECK(node_name(join, 1, hosts) == "vm (node 1)");
  hosts[1].spec.name = node_name(join, 1, hosts);
  CHECK(node_name(join, 1, hosts) == "vm (node 1)");  // it comes again
  CHECK(node_name(join, 2, hosts) == "vm (node 2)");
  join.host = "other";
  CHECK(node_name(join, 2, hosts) == "other");
}

TEST_CASE("the number of a node is free again once the node is lost") {
  asio::io_context io;
  MergedOutput console(io, {});
  StreamPair stream;
  auto hosts = three_nodes();
  const Rendezvous own;
  hosts[1].spec.name = "b";
  hosts[1].link = std::make_unique<AgentLink>(
      io, "b", std::move(stream.in[0]), std::move(stream.out[0]), console, AgentLink::Events{});
  hosts[1].state = State::kHere;
  CHECK(why_refused(newcomer(1, 3, 2).join, hosts) == "there is a node 1 already: b");
  hosts[1].state = State::kAway;
  CHECK(why_refused(newcomer(1, 3, 2).join, hosts) == "");
}

TEST_CASE("nodes that do not join in time are missing, each with how long it had") {
  auto hosts = three_nodes();
  hosts[0].state = hosts[1].state = State::kHere;
  hosts[2].spec.name = "c";
  Waiting waiting(std::move(hosts));
  waiting.nodes.start_waiting();
  while (waiting.missing.empty()) waiting.io.run_one();
  CHECK(waiting.missing == std::vector<std::string>{
                               "c: it has not joined within 0 s; 127.0.0.1 is each machine itself: "
                               "nodes on others must be told the name or address of this one"});
}

TEST_CASE("node 0 says so if the others dial an address that is none of its machine's") {
  auto hosts = three_nodes();
  hosts[0].state = hosts[1].state = State::kHere;
  hosts[2].spec.name = "node 2";
  Waiting waiting(std::move(hosts), "192.0.2.1", std::chrono::seconds(600));
  waiting.nodes.start_waiting();
  while (waiting.notices.empty()) waiting.io.run_one();
  CHECK_THAT(waiting.notices[0],
             Catch::StartsWith("waiting for node 2 to join on port ") &&
                 Catch::EndsWith(", up to 600 s; they dial 192.0.2.1, which is no address of this "
                                 "machine: if node 0 is to run there, this node needs another "
                                 "--node_rank"));
}

TEST_CASE(
    "if enough nodes are here, the job goes on without others, but not without one that joins") {
  auto hosts = three_nodes();
  hosts[1].spec.name = "b";
  hosts[2].spec.name = "c";
  Waiting waiting(std::move(hosts));
  MergedOutput console(waiting.io, {});
  StreamPair stream;
  waiting.hosts[0].state = State::kHere;
  waiting.hosts[1].link =
      std::make_unique<AgentLink>(waiting.io, "b", std::move(stream.in[0]),
                                  std::move(stream.out[0]), console, AgentLink::Events{});
  waiting.nodes.start_waiting();
  waiting.nodes.last_call(true);
  while (waiting.missing.empty()) waiting.io.run_one();
  CHECK(waiting.notices ==
        std::vector<std::string>{"enough nodes are here; waiting up to 0 s for others: b, c"});
  CHECK(waiting.missing == std::vector<std::string>{"c: it has not joined yet"});
  waiting.hosts[1].link.reset();
  while (waiting.missing.size() < 2) waiting.io.run_one();
  CHECK(waiting.missing[1] == "b: it has not joined yet");
}

TEST_CASE("if no node has dialled, the end of the job is reported to nobody") {
  Waiting waiting(three_nodes());
  bool is_done = false;
  waiting.nodes.dismiss(3, std::chrono::seconds(5), [&] { is_done = true; });
  CHECK(is_done);
}

TEST_CASE("the number of a node that was left out is not given to another") {
  auto hosts = three_nodes();
  hosts[1].spec.name = "b";
  hosts[1].is_left_out = true;
  hosts[2].spec.name = "c";
  Join join;
  join.host = "d";
  CHECK(free_number(join, hosts) == 2);
  join.host = "b";
  CHECK(free_number(join, hosts) == 1);
}

TEST_CASE("a node in whose place another may be lost is not refused before that has been heard") {
  asio::io_context io;
  MergedOutput console(io, {});
  StreamPair stream;
  auto hosts = three_nodes();
  hosts[1].state = State::kHere;
  hosts[1].link = std::make_unique<AgentLink>(
      io, "b", std::move(stream.in[0]), std::move(stream.out[0]), console, AgentLink::Events{});
  hosts[1].link->start_lease(std::chrono::seconds(15));
  const Join same = newcomer(1, 3, 2).join, beyond = newcomer(3, 3, 2).join;
  Join unnumbered;
  unnumbered.node = kAnyNode;
  unnumbered.host = "b";
  hosts[1].spec.name = "b";
  const std::int64_t begin_ns = now_ns(), long_ago_ns = begin_ns - 3'000'000'000;
  CHECK(may_replace(same, hosts, begin_ns));  // it may be lost
  CHECK_FALSE(may_replace(same, hosts, long_ago_ns));
  CHECK_FALSE(may_replace(unnumbered, hosts, long_ago_ns));
  CHECK(free_number(unnumbered, hosts) == 2);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  CHECK(may_replace(same, hosts, long_ago_ns));
  CHECK(may_replace(unnumbered, hosts, long_ago_ns));
  CHECK_FALSE(may_replace(newcomer(2, 3, 2).join, hosts, begin_ns));
  CHECK_FALSE(may_replace(beyond, hosts, begin_ns));
  CHECK(free_number(unnumbered, hosts) == 1);
  unnumbered.host = "d";
  CHECK(free_number(unnumbered, hosts) == 2);
  hosts[2].is_left_out = true;
  CHECK(free_number(unnumbered, hosts) == 1);  // which may soon be free
}
