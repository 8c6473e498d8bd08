#include "hgtrain/launch/rendezvous.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "ports.h"
#include "support/refusal.h"

using namespace hgt;

namespace {

std::optional<Rendezvous> meeting(const HostFlags& flags) {
  return rendezvous_of(flags, hosts_of(flags));
}

}  // namespace

TEST_CASE("nodes without names are counted, and meet at the address that they are given") {
  const HostFlags flags{.num_nodes = "3",
                        .num_workers = 2,
                        .master_addr = "head",
                        .master_port = 1234,
                        .node_rank = 2,
                        .join_timeout_seconds = 7};
  const auto hosts = hosts_of(flags);
  REQUIRE(hosts.size() == 3);
  for (const JobHost& host : hosts) CHECK(host.workers == 2);
  const auto out = rendezvous_of(flags, hosts);
  REQUIRE(out);
  CHECK(out->node == 2);
  CHECK(out->address == "head");
  CHECK(out->port == 1234);
  CHECK(out->join_timeout == std::chrono::seconds(7));
  CHECK(meeting({.num_nodes = "2", .master_addr = "head", .node_rank = 0})->port == 29500);
}

TEST_CASE("of a range of nodes, the larger number is that of all, and each node dials again") {
  const HostFlags flags{
      .num_nodes = "1:3", .num_workers = 2, .master_addr = "head", .node_rank = 2};
  CHECK(hosts_of(flags).size() == 3);
  CHECK(min_hosts_of(flags) == 1);
  CHECK(meeting(flags)->rejoins);
  CHECK_FALSE(meeting({.num_nodes = "3", .master_addr = "head", .node_rank = 2})->rejoins);
  CHECK_FALSE(meeting({.num_nodes = "1:1", .node_rank = 0}));
}

TEST_CASE("one node alone needs no other, and hosts that ssh reaches do not dial") {
  CHECK_FALSE(meeting({.num_nodes = "1", .master_addr = "head", .node_rank = 0}));
  CHECK_FALSE(meeting({.hosts = "a,b"}));
  CHECK_FALSE(meeting({}));
  const auto alone = hosts_of({.hosts = "a:4", .no_ssh = true, .node_rank = 0});
  CHECK(is_this_machine(alone));
  CHECK(alone[0].workers == 4);
  CHECK_FALSE(meeting({.hosts = "a:4", .no_ssh = true}));
}

TEST_CASE("if hosts are named, node 0 is on the first") {
  CHECK(meeting({.hosts = "me@a:4,b:2", .no_ssh = true, .node_rank = 1})->address == "a");
  CHECK(meeting({.hosts = "a,b", .master_addr = "c", .no_ssh = true, .node_rank = 1})->address ==
        "c");
}

TEST_CASE("torchrun's endpoint says where node 0 is; whoever can listen there is node 0") {
  const auto node_of = [](HostFlags flags) {
    find_own_node(flags);
    return meeting(flags);
  };
  const MasterPort free(0);
  const std::string here = fmt::format("127.0.0.1:{}", free.number());
  const auto first = node_of({.num_nodes = "2", .rdzv_endpoint = here});
  REQUIRE(first);
  CHECK(first->node == 0);
  CHECK(first->address == "127.0.0.1");
  CHECK(first->port == free.number());
  CHECK(node_of({.num_nodes = "2", .rdzv_endpoint = here})->node == kAnyNode);  // at the same time
  const auto other = node_of({.num_nodes = "1:3", .rdzv_endpoint = "[2001:db8::7]:1234"});
  REQUIRE(other);
  CHECK(other->node == kAnyNode);
  CHECK(other->address == "2001:db8::7");
  CHECK(other->port == 1234);
  CHECK(node_of({.num_nodes = "2", .node_rank = 1, .rdzv_endpoint = here})->node == 1);
  CHECK(node_of({.num_nodes = "2", .rdzv_endpoint = "2001:db8::7"})->port == 29500);
  CHECK_FALSE(node_of({.num_nodes = "1", .rdzv_endpoint = "localhost:1234"}));
  CHECK_FALSE(node_of({.rdzv_endpoint = "localhost:0"}));
  for (const char* wrong : {":7", "a:b", "a:70000", "a:", "[]:7"})
    CHECK(has(refusal([&] { node_of({.num_nodes = "2", .rdzv_endpoint = wrong}); }),
              "is not an address of node 0"));
  CHECK(has(refusal([&] { node_of({.hosts = "a,b", .rdzv_endpoint = "a:1"}); }),
            "--rdzv_endpoint cannot be combined with --hosts or --hostfile"));
  CHECK(
      has(refusal([&] { node_of({.num_nodes = "2", .master_addr = "a", .rdzv_endpoint = "a:1"}); }),
          "are both given"));
}

TEST_CASE("flags of nodes that do not go together are refused, each with what to type") {
  const auto says = [](const HostFlags& flags) { return refusal([&] { meeting(flags); }); };
  CHECK(has(says({.num_nodes = "2", .node_rank = 2, .join_timeout_seconds = 0}),
            "--node_rank 2 does not fit a job of 2 nodes"));
  CHECK(
      has(says({.num_nodes = "2", .node_rank = 2, .join_timeout_seconds = 0}), "--join_timeout 0"));
  CHECK(has(says({.num_nodes = "2", .node_rank = 0}), "add --master_addr with"));
  CHECK(has(says({.node_rank = 1}), "add --nnodes N"));
  CHECK(has(says({.num_nodes = "2", .node_rank = -1}), "--node_rank -1 does not fit a job of 2"));
  CHECK(has(says({.hosts = "a,b", .no_ssh = true}), "--node_rank 0"));
  CHECK(has(says({.no_ssh = true}), "--no_ssh needs hosts"));
  CHECK(has(says({.hosts = "a,b", .node_rank = 0}),
            "add --no_ssh if you start the command on each host"));
  CHECK(has(says({.hosts = "a,b", .job_secret_file = "f"}),
            "--job_secret_file is only for commands that are started on each node"));
  CHECK(has(says({.hosts = "a,b", .join_timeout_seconds = 5}),
            "--join_timeout is only for commands that are started on each node"));
  CHECK(has(says({.num_nodes = "1:2", .elastic_timeout = 5, .node_rank = 0}),
            "use --join_timeout SECONDS, which is how long nodes wait for each other"));
  CHECK(has(says({.num_nodes = "1:3", .node_rank = 3}), "--node_rank 3 does not fit a job of 3"));
  CHECK(has(says({.num_nodes = "2",
                  .master_addr = "a",
                  .node_rank = 0,
                  .job_secret_file = "f",
                  .job_secret_env = "E"}),
            "are both given"));
  CHECK(has(says({.num_nodes = "5000", .node_rank = 0}), "--nnodes 5000"));
  CHECK(has(says({.num_nodes = "2"}), "--node_rank"));
}
