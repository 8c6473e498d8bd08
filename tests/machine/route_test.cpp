#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/network.h"

using namespace hgt;

TEST_CASE("the route to this machine is its loopback") {
  CHECK(address_towards("127.0.0.1") == "127.0.0.1");
  const std::string local = address_towards("localhost");
  CHECK((local == "127.0.0.1" || local == "::1"));
}

TEST_CASE("a master whose name does not resolve is named") {
  try {
    address_towards("no such host");
    FAIL("it was resolved");
  } catch (const Error& e) {
    CHECK_THAT(e.message(), Catch::StartsWith("cannot resolve the master's name 'no such host'"));
    CHECK_THAT(e.hint(), Catch::Contains("--master_addr, or addr= in the hostfile"));
  }
}
