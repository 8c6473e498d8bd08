#include "port_user.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "listener.h"

using namespace hgt;

TEST_CASE("who listens on a port is found by name and number") {
  const Listener listener(0);
  CHECK(port_user(listener.port()) == "launch_test (pid " + std::to_string(getpid()) + ")");
}

TEST_CASE("a port that is bound but not listened on has no user") {
  const Listener listener(0, /*listens=*/false);
  CHECK(port_user(listener.port()).empty());
}
