#include "hgtrain/comm/nccl_log.h"

#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("the transports of NCCL's connections are found in its log") {
  const std::string log =
      R"(a:1024:1052 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
a:1024:1052 [0] NCCL INFO Channel 00/02 :    0   1   2   3
a:1024:1052 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
a:1024:1052 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA(PCI)
a:1024:1052 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
a:1024:1052 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC
a:1024:1052 [0] NCCL INFO Connected all rings
)";
  CHECK(nccl_transports(log) == std::vector<std::string>{"NET/IB/GDRDMA", "P2P"});
  CHECK(nccl_transports("b:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0\n"
                        "b:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct") ==
        std::vector<std::string>{"NET/Socket", "SHM"});
}

TEST_CASE("other lines are not transports") {
  for (const char* log : {"", "\n", " via ", "NCCL INFO Channel ", "a via NCCL INFO Channel 00",
                          "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"})
    CHECK(nccl_transports(log).empty());
}

TEST_CASE("what NCCL writes is kept, unless the user has a place for it") {
  const bool is_users = GENERATE(false, true);
  if (is_users) setenv("NCCL_DEBUG", "WARN", 1);
  {
    const NcclLog log;
    if (const char* const file = std::getenv("NCCL_DEBUG_FILE"); file && !is_users)
      std::ofstream(file) << "a line\n";
    CHECK(log.text() == (is_users ? "" : "a line\n"));
  }
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
}
