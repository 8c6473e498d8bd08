#include "gpu_memory.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a GPU is named by its kind, as people write it, or by its memory") {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  CHECK(gpu_memory("H100") == 80 * kGiB);
  CHECK(gpu_memory("a100-80GB") == 80 * kGiB);
  CHECK(gpu_memory("RTX 4090") == 24 * kGiB);
  CHECK(gpu_memory("4090") == 24 * kGiB);
  CHECK(gpu_memory("48GB") == 48 * kGiB);
  CHECK(gpu_memory("12 GiB") == 12 * kGiB);
}

TEST_CASE("what is neither is refused with the kinds there are") {
  for (const char* wrong : {"", "h1000", "0GB", "-3GB", "80", "80TB", "99999999999999999999GB"})
    CHECK_THROWS_AS(gpu_memory(wrong), Error);
  try {
    gpu_memory("voodoo");
  } catch (const Error& e) {
    CHECK(e.hint().find("h200") != std::string::npos);
  }
}
