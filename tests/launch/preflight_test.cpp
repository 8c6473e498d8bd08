#include "hgtrain/launch/preflight.h"

#include <catch2/catch.hpp>

#include "hgtrain/machine/resources.h"

using namespace hgt;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// A host with four GPUs on which nothing is wrong.
InspectedHost host(const std::string& name, int workers = 2) {
  HostFacts facts;
  facts.name = name;
  facts.machine = "boot of " + name;
  facts.cores = 8;
  facts.shm_free_bytes = facts.disk_free_bytes = 100 * kGiB;
  facts.nofile = 4096;
  facts.nproc = facts.memlock_bytes = kUnlimited;
  facts.disk = "/runs";
  facts.interface = "eth0";
  facts.mtu = 1500;
  facts.driver = "580.65.06";
  facts.libraries = {{"NCCL", "2.28.9"}};
  for (int i = 0; i < 4; ++i) facts.gpus.push_back("GPU-" + name + std::to_string(i));
  facts.all_gpus = facts.gpus;
  static int machines = 0;
  return {{.name = name, .workers = workers}, 0, ++machines, facts, ClockOffset{0, 1'000'000}};
}

/// All that is found, errors before notices.
std::string found(const std::vector<InspectedHost>& hosts, bool own_cpu_workers = false) {
  const Preflight preflight = check_hosts(hosts, own_cpu_workers);
  std::string out;
  for (const Error& error : preflight.errors) {
    const bool is_of_config = error.message().find("environment") != std::string::npos ||
                              error.message().find("folder") != std::string::npos;
    CHECK(error.kind() == (is_of_config ? ErrorKind::kConfig : ErrorKind::kDevice));
    CHECK(error.hint() != "");
    out += "error: " + error.message() + "\n";
  }
  for (const std::string& notice : preflight.notices) out += notice + "\n";
  return out;
}

}  // namespace

TEST_CASE("hosts that are alike and have enough room give no notice") {
  CHECK(found({host("a"), host("b")}) == "");
  CHECK(found({{{.name = "silent", .workers = 2}, 0, 0, {}, {}}}) == "");
}

TEST_CASE("an address that is none of its host's is named") {
  InspectedHost a = host("a");
  a.spec.address = "192.0.2.1";
  CHECK(found({a, host("b")}) == "");
  a.facts.lacks_address = true;
  CHECK(found({a, host("b")}) ==
        "192.0.2.1 (addr= in the hostfile, or --master_addr) is no address of a: unless the "
        "network translates it (NAT), others cannot reach a there\n");
}

TEST_CASE("a host without the shell's virtual environment is an error, before all others") {
  InspectedHost a = host("a"), b = host("b");
  a.facts.disk_is_read_only = true;
  b.facts.missing_program = "/venv/bin/python3";
  CHECK(found({a, b}) ==
        "error: host b has no /venv/bin/python3: this shell takes python3 from its virtual "
        "environment /venv\nerror: on host a logs cannot be written: /runs is read-only\n");
  b.facts.start_error = "there is no program python3 in PATH";  // no news
  CHECK(check_hosts({a, b}, false).errors.size() == 2);
}

TEST_CASE("what keeps ranks from starting on a host is an error") {
  InspectedHost a = host("a"), b = host("b");
  a.facts.start_error = "host a has no folder /work";
  b.facts.start_error = "host b has no network interface fast";
  a.facts.start_error_kind = static_cast<int>(ErrorKind::kConfig);
  b.facts.start_error_kind = static_cast<int>(ErrorKind::kDevice);
  a.facts.start_hint = b.facts.start_hint = "make it";
  CHECK(found({a, b}) ==
        "error: host a has no folder /work\nerror: host b has no network interface fast\n");
  const Error error = check_hosts({a, b}, false).errors[0];
  CHECK(error.context().empty());  // the message names the host
  a.facts.start_error = "there is no program ./run";
  CHECK(check_hosts({a}, false).errors[0].context() == std::vector<std::string>{"host a"});
}

TEST_CASE("limits that are too low for the workers are errors, and tight ones give a notice") {
  InspectedHost a = host("a", 8);
  a.facts.nofile = 40;
  CHECK(
      found({a, host("b")}) ==
      "error: on host a only 40 files may be open at once, and 8 workers there need 56 or more\n");
  a.facts.nofile = 512;
  CHECK(found({a}) == "on host a only 512 files may be open at once (ulimit -n); 1024 is usual\n");
  a.facts.nofile = 4096;
  a.facts.nproc = 15;
  CHECK(found({a}) ==
        "error: on host a the user may have 15 processes, and 8 workers there need 16\n");
  a.facts.nproc = 200;
  CHECK(found({a}) ==
        "on host a the user may have only 200 processes and threads (ulimit -u); 8 "
        "workers may start 288\n");
}

TEST_CASE("locked memory counts if there is InfiniBand, /dev/shm if workers share memory") {
  InspectedHost a = host("a", 8);
  a.facts.memlock_bytes = 8 << 20;
  CHECK(found({a}) == "");
  a.facts.has_rdma = true;
  CHECK(found({a}) ==
        "on host a locked memory is limited to 8 MiB (ulimit -l), but InfiniBand "
        "needs it unlimited\n");
  a = host("a", 8);
  a.facts.shm_free_bytes = 64 << 20;
  CHECK(found({a}, true) == "");
  CHECK(found({a}) ==
        "on host a /dev/shm has 64 MiB free, and 8 workers that share memory may need "
        "256 MiB (docker run --shm-size 1g, or --ipc host)\n");
  a.spec.workers = 1;
  CHECK(found({a}) == "");
}

TEST_CASE("a disk that is full or read-only is an error, and one with little room gives a notice") {
  InspectedHost a = host("a");
  a.facts.disk_free_bytes = 300 << 20;
  CHECK(found({a}) == "on host a only 300 MiB are free for logs, in /runs\n");
  a.facts.disk_free_bytes = 600 << 10;
  CHECK(found({a}) ==
        "error: on host a logs cannot be written: /runs is on a disk with 600 KiB free, and logs "
        "need 1024 KiB\n");
  a.facts.disk_free_bytes = 0;
  CHECK(found({a}) == "error: on host a logs cannot be written: /runs is on a disk that is full\n");
  a.facts.disk_is_read_only = true;
  CHECK(found({a}) == "error: on host a logs cannot be written: /runs is read-only\n");
}

TEST_CASE("clocks that are far off give a notice with their offset, unless that is uncertain") {
  InspectedHost a = host("a"), b = host("b"), c = host("c");
  a.clock = ClockOffset{3'600'200'000'000, 2'000'000};
  b.clock = ClockOffset{-1'500'000'000, 100'000'000};
  c.clock = ClockOffset{1'500'000'000, 900'000'000};
  CHECK(found({a, b, c}) ==
        "clocks differ from this machine's: a +3600.2 s, b -1.5 s; times in "
        "logs do not agree (is NTP running?)\n");
}

TEST_CASE("versions and the MTU must be the same on all hosts") {
  InspectedHost a = host("a"), b = host("b"), c = host("c"), d = host("d");
  b.facts.driver = "535.1";
  c.facts.driver = "";
  d.facts.libraries["NCCL"] = "2.18.3";
  b.facts.interface = "ib0";  // another name alone is no difference
  CHECK(found({a, b, c, d}) ==
        "the NVIDIA driver differs between hosts: 535.1 on b; 580.65.06 on a, d\n"
        "NCCL differs between hosts: 2.18.3 on d; 2.28.9 on a, b, c\n");
  b = host("b");
  b.facts.mtu = 9000;
  CHECK(found({a, b}) ==
        "the MTU differs between hosts: 1500 of eth0 on a; 9000 of eth0 on b; "
        "packets that are too large for one of them may be lost\n");
}

TEST_CASE(
    "a machine with two names gives a notice, and GPUs of two ranks are an error if they are "
    "used") {
  InspectedHost a = host("a"), b = a;
  b.spec.name = "alias";
  b.machine = a.machine + 1000;
  CHECK(found({a, b}) == "hosts a and alias are one machine, and their ranks share its GPUs\n");
  b.spec.min_gpus = 2;
  CHECK(found({a, b}) ==
        "error: ranks of hosts a and alias would use the same GPUs: GPU-a0, "
        "GPU-a1; these hosts are one machine\n");
  b.facts.machine = "another container";
  CHECK(found({a, b}) ==
        "error: ranks of hosts a and alias would use the same GPUs: GPU-a0, GPU-a1\n");
  b = a;
  b.spec = {.name = "alias", .workers = 2, .devices = {"3", "GPU-a1"}};
  CHECK(found({a, b}) ==
        "error: ranks of hosts a and alias would use the same GPU: GPU-a1; these "
        "hosts are one machine\n");
  b.spec.devices = {"3", "2"};
  CHECK(found({a, b}) == "");  // tasks of a scheduler, say: known to share a machine
}

TEST_CASE("however many names a machine has, they take one line") {
  std::vector<InspectedHost> hosts;
  for (const std::string name : {"a", "b", "c", "d"}) {
    hosts.push_back(host("machine"));
    hosts.back().spec.name = name;
    hosts.back().machine = static_cast<int>(hosts.size());
  }
  hosts[3].facts.machine = "another";
  for (InspectedHost& host : hosts) host.facts.gpus.clear();
  CHECK(found(hosts) == "hosts a, b and c are one machine\n");
  std::vector<InspectedHost> many(64, hosts[0]);
  for (std::size_t i = 0; i < many.size(); ++i) many[i].machine = static_cast<int>(i);
  CHECK(found(many) == "hosts a, a, a, a, a, a, a, a and 56 more are one machine\n");
  hosts[0] = hosts[1] = hosts[2] = host("machine", 3);
  hosts[0].spec = {.name = "a", .workers = 2, .devices = {"0", "1"}};
  hosts[1].spec = {.name = "b", .workers = 2, .devices = {"0", "1"}};
  hosts[2].spec = {.name = "c", .workers = 2, .devices = {"1", "2"}};
  CHECK(found(hosts) ==
        "error: ranks of hosts a and b would use the same GPU: GPU-machine0; these hosts are one "
        "machine\nerror: ranks of hosts a, b and c would use the same GPU: GPU-machine1; these "
        "hosts are one machine\n");
}

TEST_CASE("the GPUs of ranks follow from their numbers, or from what a program sees") {
  InspectedHost a = host("a", 3);
  CHECK(used_gpus(a) == std::vector<std::string>{"GPU-a0", "GPU-a1", "GPU-a2"});
  a.first_local_rank = 2;
  CHECK(used_gpus(a) == std::vector<std::string>{"GPU-a2", "GPU-a3", ""});
  a.facts.gpus = {"GPU-a3"};
  a.spec.devices = {"1", "GPU-a3", "7", "x"};
  CHECK(used_gpus(a) == std::vector<std::string>{"GPU-a1", "GPU-a3", "", ""});
}
