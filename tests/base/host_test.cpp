#include "hgtrain/base/host.h"

#include <fstream>
#include <iterator>
#include <string>
#include <sys/utsname.h>

#include <catch2/catch.hpp>

TEST_CASE("the machine's name is the system's") {
  utsname system{};
  REQUIRE(::uname(&system) == 0);
  CHECK(hgt::host_name() == system.nodename);
}

#ifdef __x86_64__
TEST_CASE("whether the CPU has AMX is what the kernel says") {
  std::ifstream cpus("/proc/cpuinfo");
  const std::string all(std::istreambuf_iterator<char>(cpus), {});
  CHECK(hgt::cpu_has_amx() == (all.find(" amx_bf16") != std::string::npos));
}
#endif
