#include "hgtrain/train/process_memory.h"

#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("memory grows with what is touched, and the peak stays") {
  const ProcessMemory before = process_memory();
  REQUIRE(before.bytes > 0);
  {
    std::vector<char> touched(64 << 20, 1);
    CHECK(process_memory().bytes > before.bytes + (60 << 20));
    CHECK(touched.back() == 1);
  }
  CHECK(process_memory().peak_bytes > before.bytes + (60 << 20));
}

TEST_CASE("a peak begun anew is not that of what was freed") {
  { CHECK(std::vector<char>(64 << 20, 1).back() == 1); }
  const ProcessMemory before = process_memory();
  restart_peak_memory();
  CHECK(process_memory().peak_bytes < before.bytes + (32 << 20));
}
