#include "scheduler.h"

#include <cstdlib>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/rendezvous.h"

#include "support/refusal.h"

using namespace hgt;

namespace {

using Environment = std::map<std::string, std::string>;

const Environment kStep = {
    {"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "0"},
    {"SLURM_PROCID", "3"},         {"SLURM_STEP_NUM_TASKS", "4"},
    {"SLURM_STEP_NUM_NODES", "4"}, {"SLURM_STEP_NODELIST", "gpu[07-08,10],b"}};

Environment with(Environment all, const std::string& name, const std::string& value) {
  all[name] = value;
  return all;
}

/// Variables of this process, while it exists.
struct Set {
  explicit Set(Environment set) : all(std::move(set)) {
    for (const auto& [name, value] : all) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Set() {
    for (const auto& [name, value] : all) unsetenv(name.c_str());
  }
  const Environment all;
};

std::string refusal_of(HostFlags flags) {
  return refusal([&] { find_own_node(flags); });
}

}  // namespace

TEST_CASE("a step of srun: which task this is, and where task 0 runs") {
  const auto task = scheduler_task(kStep);
  REQUIRE(task);
  CHECK(task->starter == "srun");
  CHECK(task->task == 3);
  CHECK(task->num_tasks == 4);
  CHECK(task->first_node == "gpu07");
  CHECK_FALSE(task->shares_node);
  CHECK(task->port >= 20'000);
  CHECK(task->port < 30'000);
  CHECK(scheduler_task(with(kStep, "SLURM_STEP_NUM_NODES", "2"))->shares_node);
  CHECK(scheduler_task(with(kStep, "SLURM_STEP_ID", "1"))->port != task->port);
}

TEST_CASE("a batch script, a step of one task and no scheduler at all start a local job") {
  Environment batch = kStep;
  batch.erase("SLURM_STEP_ID");
  CHECK_FALSE(scheduler_task(batch));
  CHECK_FALSE(scheduler_task(with(with(kStep, "SLURM_STEP_NUM_TASKS", "1"), "SLURM_PROCID", "0")));
  CHECK_FALSE(scheduler_task({}));
}

TEST_CASE("Open MPI and MPICH, even if srun has started their daemons") {
  Environment open_mpi = kStep;
  open_mpi.merge(Environment{{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  const auto task = scheduler_task(open_mpi);
  REQUIRE(task);
  CHECK(task->starter == "mpirun");
  CHECK(task->task == 1);
  CHECK(task->num_tasks == 2);
  CHECK(task->first_node == "");
  CHECK_FALSE(task->shares_node);
  const auto here =
      scheduler_task({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}});
  REQUIRE(here);
  CHECK(here->shares_node);
  CHECK(here->first_node == "127.0.0.1");
}

TEST_CASE("variables that make no sense are named") {
  for (const auto& [name, value] :
       {std::pair("SLURM_PROCID", "4"), std::pair("SLURM_PROCID", "x"),
        std::pair("SLURM_STEP_NUM_TASKS", ""), std::pair("SLURM_STEP_NUM_NODES", "-1"),
        std::pair("SLURM_STEP_NODELIST", "a[2-1]")})
    CHECK_THROWS_AS(scheduler_task(with(kStep, name, value)), Error);
}

TEST_CASE("the flags of a task are those that its scheduler knows, unless the user says them") {
  const Set step(with(kStep, "SLURM_STEP_NUM_NODES", "2"));
  HostFlags flags;
  find_own_node(flags);
  CHECK(flags.node_rank == 3);
  CHECK(flags.num_nodes == "4");
  CHECK(flags.master_addr == "gpu07");
  CHECK(flags.shares_node);
  const auto hosts = hosts_of(flags);
  REQUIRE(hosts.size() == 4);
  CHECK(hosts[3].workers == 1);
  HostFlags own{.num_workers = 2, .master_addr = "head", .master_port = 7};
  find_own_node(own);
  CHECK(own.master_addr == "head");
  CHECK(own.master_port == 7);
  CHECK(hosts_of(own)[0].workers == 2);
  HostFlags range{.num_nodes = "2:4"};
  find_own_node(range);
  CHECK(min_hosts_of(range) == 2);
  HostFlags typed{.num_nodes = "2", .master_addr = "a", .node_rank = 1};
  find_own_node(typed);
  CHECK(typed.num_nodes == "2");
}

TEST_CASE("a scheduler's task that is given hosts, or another number of nodes, is an error") {
  const Set step(kStep);
  CHECK(has(refusal_of({.hosts = "a,b"}), "srun has started 4 of this command"));
  CHECK(has(refusal_of({.hostfile = "hosts"}), "--hostfile"));
  CHECK(has(refusal_of({.num_nodes = "2"}), "--num_nodes 2 does not match: srun has started 4"));
  CHECK(has(refusal_of({.num_nodes = "2:3"}), "--num_nodes 2:3 does not match"));
  CHECK(has(refusal_of({.hosts = "a,b", .no_ssh = true}),
            "4 of this command, and there are 2 hosts"));
}

TEST_CASE("a task is the host of its number if the command reaches no host by ssh") {
  const Set step(kStep);
  HostFlags flags{.hosts = "a:1,b:2,c:3,d:4", .no_ssh = true};
  find_own_node(flags);
  CHECK(flags.node_rank == 3);
  CHECK(hosts_of(flags)[3].workers == 4);
  CHECK(rendezvous_of(flags, hosts_of(flags))->address == "a");
}

TEST_CASE("a pod of an indexed Job is the node of its index") {
  const Set pod(Environment{{"JOB_COMPLETION_INDEX", "1"}});
  HostFlags flags{.num_nodes = "2", .master_addr = "train-0.train"};
  find_own_node(flags);
  CHECK(flags.node_rank == 1);
  HostFlags alone;
  find_own_node(alone);
  CHECK_FALSE(alone.node_rank);
  const Set wrong(Environment{{"JOB_COMPLETION_INDEX", "x"}});
  CHECK(has(refusal_of({.num_nodes = "2"}), "JOB_COMPLETION_INDEX"));
}
