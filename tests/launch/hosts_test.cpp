#include "hgtrain/launch/hosts.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("hosts keep their order, and a number of workers belongs to its host") {
  const auto hosts = parse_hosts("b:4,a,user@10.0.0.1:2,[fd00::2]:3,root@[::1]");
  REQUIRE(hosts.size() == 5);
  CHECK((hosts[3].name == "fd00::2" && hosts[3].workers == 3));
  CHECK((hosts[4].name == "root@::1" && hosts[4].workers == 0));
  CHECK((hosts[0].name == "b" && hosts[0].workers == 4));
  CHECK((hosts[1].name == "a" && hosts[1].workers == 0));
  CHECK((hosts[2].name == "user@10.0.0.1" && hosts[2].workers == 2));
}

TEST_CASE("a list of hosts that cannot be meant is refused") {
  for (const char* text :
       {"", ",", "a,", "a,,b", "a:0", "a:x", "a:", ":2", "a:-1", "a:2x", "a,a:2",
        "-oProxyCommand=id", "a b", "a\nb", "a:99999", "a,A", "fd00::2", "[]:2", "[::1"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_hosts(text), Error);
  }
}

TEST_CASE("a hostfile of DeepSpeed's is read, comments and all") {
  const auto hosts = parse_hostfile(
      "# all nodes\n\nworker-0 slots=4 # c\n  user@w1\tslots=08\r\n[fd00::2] slots=1", "hosts");
  REQUIRE(hosts.size() == 3);
  CHECK((hosts[0].name == "worker-0" && hosts[0].workers == 4));
  CHECK((hosts[1].name == "user@w1" && hosts[1].workers == 8));
  CHECK((hosts[2].name == "fd00::2" && hosts[2].workers == 1));
}

TEST_CASE("every wrong line of a hostfile is named") {
  for (const char* line :
       {"w0", "w0 slots=0", "w0 slots=-1", "w0 slots = 2", "w0:2", "w0 SLOTS=2", "w0 slots=2abc",
        "w0 slots=2 trailing junk", "w0 slots=", "ok slots=3", "OK slots=3", "-o slots=2"}) {
    INFO(line);
    const std::string text = std::string("ok slots=2\n") + line + "\n0w slots=x\n";
    try {
      parse_hostfile(text, "hosts");
      FAIL("it was taken");
    } catch (const Error& e) {
      CHECK_THAT(e.render(),
                 Catch::Contains("hosts:2: ") && Catch::Contains("hosts:3: 'x' is not"));
    }
  }
  CHECK_THROWS_WITH(parse_hostfile("# none\n", "hosts"), Catch::Contains("names no host"));
}

TEST_CASE("hosts come from one place, and a hostfile that is named must be there") {
  CHECK(hosts_of("", "").empty());
  CHECK(hosts_of("a,b", "").size() == 2);
  CHECK_THROWS_WITH(hosts_of("a", "hosts"), Catch::Contains("exclude each other"));
  CHECK_THROWS_WITH(hosts_of("", "/nowhere/hosts"), Catch::Contains("there is no hostfile"));
}
