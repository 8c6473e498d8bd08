#include "hgtrain/machine/network.h"

#include <cstdlib>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"

#include "support/process.h"
#include "support/put_file.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("all interfaces except the loopback are listed") {
  const TemporaryFolder root;
  put_file(root / "sys/class/net/lo/mtu", "65536");
  put_file(root / "sys/class/net/bonding_masters", "");
  put_file(root / "sys/class/net/eth7/mtu", "9000");
  put_file(root / "sys/class/net/eth7/operstate", "up");
  put_file(root / "sys/class/net/eth7/speed", "25000");
  put_file(root / "sys/class/net/veth1/mtu", "1500");
  put_file(root / "sys/class/net/veth1/operstate", "down");
  put_file(root / "sys/class/net/veth1/speed", "-1");
  const auto found = look_at_network(root.path()).interfaces;
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "eth7");
  CHECK(found[0].state == "up");
  CHECK(found[0].speed_mbit == 25000);
  CHECK(found[0].mtu == 9000);
  CHECK(found[1].speed_mbit == 0);
}

TEST_CASE("an interface is known by its numeric address") {
  CHECK(address_of("") == "");
  CHECK(address_of("lo") == "127.0.0.1");
  CHECK_THROWS_WITH(address_of("no-such-0"),
                    Catch::Contains("has no network interface no-such-0 with an address"));
}

TEST_CASE("a loopback is distinguished from other addresses") {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "::1", "localhost"})
    CHECK(is_loopback(address));
  for (const char* address : {"10.0.0.1", "fd00::1", "node127.0.0.1"})
    CHECK_FALSE(is_loopback(address));
}

TEST_CASE("an interface is found by its address") {
  CHECK(interface_with("127.0.0.1") == "lo");
  CHECK(interface_with("192.0.2.1") == "");
}

TEST_CASE("interfaces are listed with their addresses") {
  CHECK_THAT(list_interfaces(), Catch::StartsWith("it has ") && Catch::Contains("lo (127.0.0.1"));
}

TEST_CASE("each port of each RDMA device is listed") {
  const TemporaryFolder root;
  const std::string port = root / "sys/class/infiniband/mlx5_0/ports/1";
  put_file(port + "/state", "4: ACTIVE");
  put_file(port + "/rate", "400 Gb/sec (4X NDR)");
  put_file(port + "/link_layer", "InfiniBand");
  const auto found = look_at_network(root.path()).infiniband;
  REQUIRE(found.size() == 1);
  CHECK(found[0].device == "mlx5_0");
  CHECK(found[0].port == 1);
  CHECK(found[0].state == "ACTIVE");
  CHECK(found[0].rate == "400 Gb/sec (4X NDR)");
  CHECK(found[0].link_layer == "InfiniBand");
}

TEST_CASE("a machine without a network is not an error") {
  const Network none = look_at_network("/nonexistent");
  CHECK(none.interfaces.empty());
  CHECK(none.infiniband.empty());
}

TEST_CASE("a machine knows that it cannot reach an address without a route, or without a link") {
  constexpr int kNoNamespace = 77;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(kNoNamespace);
    // The kernel notices a link's change a while after the command.
    const auto is_why_after = [](const char* command, const std::string& wanted) {
      if (std::system(command) != 0) _exit(kNoNamespace);
      return eventually([&] { return why_cut_off("10.9.8.1") == wanted; });
    };
    std::string said;
    try {
      address_towards("10.9.8.1");
    } catch (const Error& e) {
      said = e.text();
    }
    const bool is_right =
        said.starts_with(host_name() +
                         " has no route to 10.9.8.1\n  hint: check the address "
                         "(--master_addr, or addr= in the hostfile)") &&
        is_why_after("true", "it has no route to 10.9.8.1") &&
        is_why_after(
            "ip link add v type veth peer name w && ip addr add 10.9.8.7/24 dev v && "
            "ip link set v up",
            "its interface v has no link") &&
        is_why_after("ip link set w up", "");
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WEXITSTATUS(status) == kNoNamespace) return;  // that takes privileges, and iproute2
  CHECK(status == 0);
}
