#include "hgtrain/machine/resources.h"

#include <catch2/catch.hpp>

#include "support/put_file.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("processor, memory and NUMA nodes are read from the kernel's files") {
  const TemporaryFolder root;
  put_file(root / "proc/cpuinfo",
           "processor\t: 0\nmodel name\t: A Processor 9000\n"
           "flags\t\t: fpu avx2 avx512fx amx_bf16\n");
  put_file(root / "proc/meminfo", "MemTotal:  2048 kB\nMemFree:  1 kB\nMemAvailable:  1024 kB");
  for (const char* node : {"node0", "node1", "possible"})
    make_folders(root / ("sys/devices/system/node/" + std::string(node)));
  const Resources found = resources_of(root.path());
  CHECK(found.cpu == "A Processor 9000");
  CHECK(found.instructions == std::vector<std::string_view>{"avx2", "amx_bf16"});
  CHECK(found.memory_bytes == 2048 * 1024);
  CHECK(found.available_bytes == 1024 * 1024);
  CHECK(found.numa_nodes == 2);
  CHECK(found.cpu_quota == 0);
  CHECK(found.memory_limit_bytes == kUnlimited);
  CHECK(found.shm_bytes == 0);
}

TEST_CASE("instructions that a processor lacks are named") {
  const TemporaryFolder root;
  const std::string_view needed[] = {"avx2", "fma", "avx512f"};
  CHECK(missing_cpu_flags(needed, root.path()).empty());  // the system says nothing
  put_file(root / "proc/cpuinfo",
           "model name\t: Old\nflags\t\t: fpu fma avx512fx avx\n\nflags\t\t: avx2\n");
  CHECK(missing_cpu_flags(needed, root.path()) == std::vector<std::string_view>{"avx2", "avx512f"});
}

TEST_CASE("the lowest limit of the control groups counts") {
  const TemporaryFolder root;
  put_file(root / "proc/self/cgroup", "0::/job/step");
  put_file(root / "sys/fs/cgroup/job/step/cpu.max", "max 100000");
  put_file(root / "sys/fs/cgroup/job/step/memory.max", "2000000");
  put_file(root / "sys/fs/cgroup/job/cpu.max", "150000 100000");
  put_file(root / "sys/fs/cgroup/job/memory.max", "1000000");
  put_file(root / "sys/fs/cgroup/memory.max", "max");
  const Resources found = resources_of(root.path());
  CHECK(found.cpu_quota == 1.5);
  CHECK(found.memory_limit_bytes == 1000000);
}

TEST_CASE("this machine's resources are not empty") {
  const Resources here = resources_of();
  CHECK(here.usable_cores > 0);
  CHECK(here.cores >= here.usable_cores);
  CHECK(here.memory_bytes > here.available_bytes);
  REQUIRE(here.limits.size() == 3);
  CHECK(here.limits[0].name == "nofile");
  CHECK((here.limits[0].soft > 0 || here.limits[0].soft == kUnlimited));
}
