#include "hgtrain/launch/host_choice.h"

#include <fstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"

#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// "a:2 b:2=0,3": names and workers, and the devices if they are chosen.
std::string chosen(const HostFlags& flags) {
  std::string out;
  for (const JobHost& host : hosts_of(flags)) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : " ", host.name, host.workers);
    if (!host.devices.empty()) out += fmt::format("={}", fmt::join(host.devices, ","));
  }
  return out;
}

std::string included(const std::string& hosts, const std::string& filter) {
  return chosen({.hosts = hosts, .include = filter});
}

std::string excluded(const std::string& hosts, const std::string& filter) {
  return chosen({.hosts = hosts, .exclude = filter});
}

/// All that is said of flags that are refused.
std::string refusal(const HostFlags& flags) {
  try {
    return "taken: " + chosen(flags);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
    return e.render();
  }
}

void check_says(const HostFlags& flags, const std::vector<std::string>& texts) {
  const std::string said = refusal(flags);
  for (const std::string& text : texts) CHECK_THAT(said, Catch::Contains(text));
}

const std::string kOne = "worker-0:4", kTwo = "worker-0:4,worker-1:4";

}  // namespace

TEST_CASE("spares come last, are not counted, and need the slots of another host") {
  const TemporaryFolder folder;
  const auto with = [&](const std::string& lines, HostFlags flags = {}) {
    std::ofstream(folder / "hosts") << lines;
    flags.hostfile = folder / "hosts";
    return flags;
  };
  const std::string lines = "s slots=4 spare\na slots=4\nb slots=8\n";
  CHECK(chosen(with(lines)) == "a:4 b:8 s:4");
  CHECK(chosen(with(lines, {.num_nodes = "1"})) == "a:4 s:4");
  CHECK(chosen(with(lines, {.exclude = "s"})) == "a:4 b:8");
  check_says(with(lines, {.num_nodes = "3"}),
             {"--num_nodes 3 is more than the number of hosts, 2"});
  check_says(with("a slots=4\ns slots=2 spare\n"), {"spare host s has 2 slots, fewer than any"});
  check_says(with("s slots=4 spare\n"), {"every host is a spare"});
  check_says(with(lines, {.no_ssh = true}), {"with --no_ssh, spare hosts must be the last ones"});
}

TEST_CASE("hosts beyond the range of a number of nodes are spares") {
  const HostFlags flags{.hosts = "a:4,b:4,c:4", .num_nodes = "1:2", .elastic_timeout = 5};
  std::string spares;
  for (const JobHost& host : hosts_of(flags))
    if (host.is_spare) spares += host.name;
  CHECK((spares == "c" && min_hosts_of(flags) == 1));
  CHECK(chosen({.hosts = "a:4,b:4", .num_nodes = "2:9"}) == "a:4 b:4");
  CHECK((min_hosts_of({.num_nodes = "2"}) == 0 && min_hosts_of({}) == 0));
  check_says({.hosts = "a,b", .num_nodes = "3:4"},
             {"--num_nodes 3:4 is more than the number of hosts, 2"});
  check_says({.hosts = "a,b", .elastic_timeout = 5}, {"the job ends if it loses a host"});
  CHECK(chosen({.hosts = "a:4,b:4", .elastic_timeout = 5, .restarts = true}) == "a:4 b:4");
  check_says({.hosts = "a,b", .num_nodes = "1:2", .elastic_timeout = -1},
             {"not a number of seconds"});
  check_says({.elastic_timeout = 5}, {"--elastic_timeout needs --hosts"});
}

TEST_CASE("a number of nodes is one number, or a range that begins at 1 or more") {
  for (const char* text : {"0", "-1", "x", "1x", "1:2:3", "0:2", "3:2", "1:", ":2", ":", " 1"})
    check_says({.hosts = "a,b", .num_nodes = text}, {"is neither a number of hosts nor a range"});
}

TEST_CASE("DeepSpeed's filters choose what they choose there") {
  CHECK(excluded(kOne, "worker-0:1") == "worker-0:3=0,2,3");
  CHECK(included(kOne, "worker-0:1") == "worker-0:1=1");
  CHECK(included(kOne, "worker-0:1,1") == "worker-0:1=1");
  CHECK(included(kOne, "worker-0") == "worker-0:4");
  CHECK(included(kTwo, "worker-1:0,3") == "worker-1:2=0,3");
  CHECK(excluded(kTwo, "worker-1") == "worker-0:4");
  CHECK(included(kTwo, "worker-1@worker-0") == "worker-0:4 worker-1:4");
  CHECK(included(kTwo, "worker-0:3,1@worker-1") == "worker-0:2=1,3 worker-1:4");
}

TEST_CASE("a host that is named whole and in part is whole, and ranges and spaces are understood") {
  CHECK(included(kTwo, "worker-0@worker-0:1") == "worker-0:4");
  CHECK(excluded(kTwo, "worker-0@worker-0:1") == "worker-1:4");
  CHECK(included(kTwo, " worker-0: 1-2 , 3 @ WORKER-1:0") == "worker-0:3=1,2,3 worker-1:1=0");
  CHECK(included("n[01-04]:2,me@x:2", "n[02-03]:1@x") == "n02:1=1 n03:1=1 me@x:2");
  CHECK(included("[fd00::1]:2,b:2", "[fd00::1]:0") == "fd00::1:1=0");
  CHECK(included("a,b", "a:2,0,GPU-1f") == "a:3=2,0,GPU-1f");  // how many there are is not known
}

TEST_CASE("a filter that makes no sense is an error, and all errors are reported at once") {
  check_says({.hosts = kTwo, .include = "jeff@worker-0:7@worker-1:4"},
             {"there is no host 'jeff'", "worker-0 has no slot 7, only 0, 1, 2, 3",
              "worker-1 has no slot 4", "in --include jeff@", "separated by @"});
  for (const char* filter : {"jeff", "worker-0:4", "worker-0:", "worker-0:1,", "worker-0:0:1",
                             "worker-0@", "a@@b", "worker-0:-1", "worker-0,worker-1", "@"}) {
    INFO(filter);
    CHECK_THROWS_AS(included(kTwo, filter), Error);
    CHECK_THROWS_AS(excluded(kTwo, filter), Error);
  }
  check_says({.hosts = kOne, .exclude = "worker-0"}, {"leaves nothing to run on"});
  check_says({.hosts = kOne, .exclude = "worker-0:0-3"}, {"leaves nothing to run on"});
  check_says({.hosts = "a,b", .exclude = "a:1"}, {"how many slots host a has"});
  check_says({.hosts = kOne, .include = "worker-0", .exclude = "worker-0"}, {"keep one"});
  for (const HostFlags& flags : {HostFlags{.hosts = kOne, .include = "worker-0", .num_nodes = "1"},
                                 HostFlags{.hosts = kOne, .exclude = "worker-0", .num_workers = 1}})
    check_says(flags, {"cannot be combined with a number", "keep one"});
}

TEST_CASE("numbers take the first hosts, and the first slots of each") {
  CHECK(chosen({.hosts = "a:4,b:2,c:1", .num_nodes = "2"}) == "a:4 b:2");
  CHECK(chosen({.hosts = "a:4,b,c:2", .num_workers = 2}) == "a:2 b:2 c:2");
  check_says({.hosts = "a:4,b:2,c:1", .num_workers = 3},
             {"b has 2 slots", "c has 1 slot\n", "3 workers on each host"});
  check_says({.hosts = "a,b", .num_nodes = "3", .ssh_port = 70000},
             {"--num_nodes 3 is more than the number of hosts, 2",
              "--ssh_port 70000 is not between 1 and 65535"});
  check_says({.hosts = "a", .num_nodes = "2"}, {"more than the number of hosts, 1"});
  check_says({.hosts = "a", .ssh_port = 0}, {"--ssh_port 0 is not between 1 and 65535"});
}

TEST_CASE("a port of ssh's is that of the hosts that name none") {
  const TemporaryFolder folder;
  std::ofstream(folder / "hosts") << "a slots=2 ssh_port=7\nb slots=1 gpus=5\n";
  const auto hosts = hosts_of({.hostfile = folder / "hosts", .ssh_port = 2222});
  REQUIRE(hosts.size() == 2);
  CHECK((hosts[0].ssh_port == 7 && hosts[1].ssh_port == 2222));
}

TEST_CASE("the master's address is that of the first host that is left") {
  const auto hosts = hosts_of({.hosts = "a:2,b:2", .include = "b", .master_addr = "10.0.0.2"});
  REQUIRE(hosts.size() == 1);
  CHECK(hosts[0].address == "10.0.0.2");
  CHECK(hosts_of({.master_addr = "localhost"}).empty());
  check_says({.master_addr = "10.0.0.2"},
             {"--master_addr 10.0.0.2 needs --hosts", "or add --nnodes N"});
  check_says({.num_nodes = "2", .master_addr = "n1"},
             {"--nnodes 2 --master_addr n1 does not say which node this is",
              "add --node_rank R, which is 0 on n1; or use --rdzv_endpoint n1:29500 in place of "
              "--master_addr, on every node"});
  const TemporaryFolder folder;
  std::ofstream(folder / "hosts") << "a slots=2 addr=10.0.0.1\n";
  check_says({.hostfile = folder / "hosts", .master_addr = "10.0.0.2"},
             {"--master_addr 10.0.0.2 contradicts the hostfile, in which a is at 10.0.0.1"});
}

TEST_CASE("the slots of a host whose GPUs are named are these GPUs") {
  const TemporaryFolder folder;
  std::ofstream(folder / "hosts") << "a slots=3 gpus=4,6,GPU-2b\n";
  HostFlags flags{.hostfile = folder / "hosts"};
  CHECK(chosen(flags) == "a:3=4,6,GPU-2b");
  flags.include = "a:GPU-2b,4";
  CHECK(chosen(flags) == "a:2=4,GPU-2b");
  flags.include = "a:0";
  check_says(flags, {"host a has no slot 0, only 4, 6, GPU-2b"});
  flags = {.hostfile = folder / "hosts", .num_workers = 2};
  CHECK(chosen(flags) == "a:2=4,6");
}

TEST_CASE("hosts come from one place, and a hostfile that is named must be there") {
  CHECK(hosts_of({}).empty());
  CHECK(hosts_of({.num_nodes = "1", .num_workers = 4}).empty());
  CHECK(chosen({.hosts = "a,b"}) == "a:0 b:0");
  check_says({.hosts = "a", .hostfile = "hosts"}, {"--hosts and --hostfile are both given"});
  check_says({.hostfile = "/nowhere/hosts"}, {"there is no hostfile /nowhere/hosts"});
  check_says({.hostfile = "/"}, {"/ is a folder"});
  check_says({.hostfile = "a:1,b:1"}, {"there is no hostfile a:1,b:1", "--hosts a:1,b:1"});
}

TEST_CASE("localhost alone is this machine, unless something is said of its login or network") {
  const auto is_here = [](const HostFlags& flags) { return is_this_machine(hosts_of(flags)); };
  CHECK(chosen({.include = "localhost:2,0"}) == "localhost:2=2,0");
  CHECK(is_here({.include = "localhost:2,0"}));
  CHECK(is_here({.hosts = "localhost:4,b:4", .num_nodes = "1", .master_addr = "127.0.0.1"}));
  check_says({.exclude = "localhost:1"},
             {"how many slots host localhost has", "--hosts localhost:4"});
  CHECK_FALSE(is_here({}));
  for (const char* hosts : {"localhost,b", "a", "me@localhost"})
    CHECK_FALSE(is_here({.hosts = hosts}));
  CHECK_FALSE(is_here({.hosts = "localhost", .ssh_port = 2222}));
  CHECK_FALSE(is_here({.hosts = "localhost", .master_addr = "10.0.0.1"}));
}

TEST_CASE("flags that choose among hosts need some") {
  check_says({.hosts = "a", .num_workers = 0}, {"0 is not a number of workers on each host"});
  check_says({.include = "b:0", .num_nodes = "2", .ssh_port = 22},
             {"--include and --exclude need", "--include localhost:0,2",
              "--num_nodes 2 (--nnodes) needs hosts", "--ssh_port needs"});
}
