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

TEST_CASE("a range of names is as many hosts") {
  const auto hosts = parse_hosts("me@n[09-10]:8, b");
  REQUIRE(hosts.size() == 3);
  CHECK((hosts[0].name == "me@n09" && hosts[0].workers == 8));
  CHECK((hosts[1].name == "me@n10" && hosts[1].workers == 8));
  CHECK((hosts[2].name == "b" && hosts[2].workers == 0));
}

TEST_CASE("everything that is wrong with a list of hosts is reported at once") {
  try {
    parse_hosts("a:x,n[2-1],b,B");
    FAIL("it was taken");
  } catch (const Error& e) {
    CHECK_THAT(e.render(), Catch::Contains("in 'a:x', 'x' is not a number of workers") &&
                               Catch::Contains("the range 2-1 ends before it begins") &&
                               Catch::Contains("B is given twice"));
  }
}

TEST_CASE("a list of hosts that makes no sense is refused") {
  for (const char* text :
       {"",     ",",         "a,",      "a,,b", "a:0",         "a:x",
        "a:",   ":2",        "a:-1",    "a:2x", "a,a:2",       "-oProxyCommand=id",
        "a b",  "a\nb",      "a:99999", "a,A",  "fd00::2",     "[]:2",
        "[::1", "n[1-2],n2", "a,me@a",  "me@",  "n[1-4096],m", "x[1:2]"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_hosts(text), Error);
  }
}

TEST_CASE("a hostfile of DeepSpeed's is read, comments and all") {
  const auto hosts = parse_hostfile(
      "# all nodes\n\nworker-0 slots=4 max_slots=8 # c\n  user@w1\tmax-slots=8 "
      "slots=08\r\n[fd00::2] slots=1",
      "hosts");
  REQUIRE(hosts.size() == 3);
  CHECK((hosts[0].name == "worker-0" && hosts[0].workers == 4));
  CHECK((hosts[1].name == "user@w1" && hosts[1].workers == 8));
  CHECK((hosts[2].name == "fd00::2" && hosts[2].workers == 1));
}

TEST_CASE("a hostfile may begin with a byte order mark") {
  CHECK(parse_hostfile("\xEF\xBB\xBF"
                       "a slots=1\n",
                       "hosts")[0]
            .name == "a");
}

TEST_CASE("a line of a hostfile may say more about its hosts") {
  const auto hosts = parse_hostfile(
      "n[1-2] gpus=0-2,5 user=me slots=4 ssh_port=2222 iface=ib0\n"
      "b slots=1 gpus=GPU-1f addr=fd00::7\n",
      "hosts");
  REQUIRE(hosts.size() == 3);
  CHECK((hosts[1].name == "n2" && hosts[1].workers == 4 && hosts[1].user == "me"));
  CHECK((hosts[1].ssh_port == 2222 && hosts[1].interface == "ib0" && hosts[1].address.empty()));
  CHECK(hosts[1].devices == std::vector<std::string>{"0", "1", "2", "5"});
  CHECK((hosts[2].devices == std::vector<std::string>{"GPU-1f"} && hosts[2].user.empty()));
  CHECK((hosts[2].address == "fd00::7" && hosts[2].interface.empty()));
  CHECK((!hosts[2].is_spare && parse_hostfile("a slots=1 spare\n", "hosts")[0].is_spare));
}

TEST_CASE("everything that is wrong with a line is reported, and how to write it") {
  const auto [line, says] = GENERATE(table<std::string, std::vector<std::string>>({
      {"a slots=x user=-l colour=red",
       {"'x' is not a number", "'-l' is not", "'colour=red' is not a key", "max_slots=N"}},
      {"a:2", {"a:2 has no slots=N", "hint: write `a slots=2`"}},
      {"fd00::2", {"hint: each line is a host and the number of its workers"}},
      {"a slots=4 max_slots=2", {"slots=4 is more than max_slots=2"}},
      {"a slots=2 max-slots=x", {"'x' is not a number of workers"}},
      {"a slots=2 spare=1", {"'spare=1' is not a key of a hostfile"}},
      {"a slots=2 slots=3", {"slots is given twice"}},
      {"a slots = 2", {"there is a blank before =", "a slots=4"}},
      {"a slots=2 gpus=0", {"gpus names 1, and slots=2"}},
      {"a slots=2 gpus=1,1", {"names a GPU twice"}},
      {"a slots=1 gpus=x", {"'x' is neither a number nor a range"}},
      {"a slots=1 ssh_port=0", {"'0' is not a port, 1 to 65535"}},
      {"n[1-2 slots=1", {"'n[1-2' has no ]"}},
      {"n[1-2] slots=1 addr=10.0.0.1", {"addr=10.0.0.1 is the address of one host", "iface=NAME"}},
      {"a slots=1 addr= iface=-x", {"'' is not an address", "'-x' is not a network interface"}},
      {"a slots=1 addr=1.2.3", {"'1.2.3' is not an address"}},
      {"a,b slots=1", {"'a,b' is not the name of a host"}},
  }));
  INFO(line);
  try {
    parse_hostfile(line, "hosts");
    FAIL("it was taken");
  } catch (const Error& e) {
    for (const std::string& text : says)
      CHECK_THAT(e.render(), Catch::Contains("hosts:1: ") && Catch::Contains(text));
  }
}

TEST_CASE("a host that has a line for each worker is to get one line") {
  for (const char* text : {"a\nb\na\n", "a slots=1\nb slots=1\nA slots=1\n"}) try {
      parse_hostfile(text, "hosts");
      FAIL("it was taken");
    } catch (const Error& e) {
      CHECK_THAT(e.render(), Catch::Matches("[^]*hosts:3: [aA] is given twice\n  hint: write one "
                                            "line with slots=N in place of several\n"));
    }
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
