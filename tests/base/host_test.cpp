#include "hgtrain/base/host.h"

#include <sys/utsname.h>

#include <catch2/catch.hpp>

TEST_CASE("the machine's name is the system's") {
  utsname system{};
  REQUIRE(::uname(&system) == 0);
  CHECK(hgt::host_name() == system.nodename);
}
