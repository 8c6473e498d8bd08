#include "ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

#include "listener.h"

using namespace hgt;

namespace {

/// Whether a server on all addresses can listen on the port, as PyTorch's store does.
bool can_listen(const OwnedFd& fd, int family, int port) {
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<in_port_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  const int bound = family == AF_INET
                        ? bind(fd.get(), reinterpret_cast<sockaddr*>(&four), sizeof four)
                        : bind(fd.get(), reinterpret_cast<sockaddr*>(&six), sizeof six);
  return bound == 0 && listen(fd.get(), 5) == 0;
}

}  // namespace

TEST_CASE("the port is free for the job's own server, IPv4 or IPv6, but taken once that listens") {
  const int family = GENERATE(AF_INET, AF_INET6);
  const OwnedFd server(socket(family, SOCK_STREAM, 0));
  if (server.get() < 0) return;  // a machine without IPv6
  const MasterPort port(0);
  CHECK(port.number() > 0);
  CHECK(can_listen(server, family, port.number()));
  try {
    MasterPort again(port.number());
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    CHECK(e.message().find(std::to_string(port.number())) != std::string::npos);
    CHECK_THAT(e.message(),
               Catch::Contains("launch_test (pid " + std::to_string(getpid()) + ") listens there"));
  }
}

TEST_CASE("the process that listens on a port is found by name and number") {
  const Listener listener(0);
  CHECK(port_user(listener.port()) == "launch_test (pid " + std::to_string(getpid()) + ")");
}

TEST_CASE("an address of this machine is told from others") {
  CHECK(is_address_here("127.0.0.1"));
  CHECK_FALSE(is_address_elsewhere("127.0.0.1"));
  CHECK_FALSE(is_address_here("192.0.2.1"));
  CHECK(is_address_elsewhere("192.0.2.1"));
  CHECK_FALSE(is_address_here("no-such-host.invalid"));
  CHECK_FALSE(is_address_elsewhere("no-such-host.invalid"));
}

TEST_CASE("a port that is bound but not listened on has no user") {
  const Listener listener(0, /*listens=*/false);
  CHECK(port_user(listener.port()).empty());
}
