#include "hgtrain/launch/hosts.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("hosts keep their order, and a number of workers belongs to its host") {
  const auto hosts = parse_hosts("b:4,a,user@10.0.0.1:2");
  REQUIRE(hosts.size() == 3);
  CHECK((hosts[0].name == "b" && hosts[0].workers == 4));
  CHECK((hosts[1].name == "a" && hosts[1].workers == 0));
  CHECK((hosts[2].name == "user@10.0.0.1" && hosts[2].workers == 2));
}

TEST_CASE("a list of hosts that cannot be meant is refused") {
  for (const char* text : {"", ",", "a,", "a,,b", "a:0", "a:x", "a:", ":2", "a:-1", "a:2x", "a,a:2",
                           "-oProxyCommand=id", "a b", "a\nb", "a:99999"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_hosts(text), Error);
  }
}
