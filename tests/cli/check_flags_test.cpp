#include "check_flags.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/machine/resources.h"

using namespace hgt;

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("more memory than a GPU has is refused, by the flag that asks for it") {
  VisibleGpu gpu;
  CHECK_NOTHROW(check_memory("--mib", 1000 * kGiB, gpu));  // it is not known
  gpu.memory_bytes = 24 * kGiB;
  CHECK_NOTHROW(check_memory("--mib", 24 * kGiB, gpu));
  CHECK_THROWS_WITH(check_memory("--mib", 24 * kGiB + 1, gpu),
                    "--mib asks for 24.000000001 GiB of memory, and the GPU has 24.000000000 GiB");
  try {
    check_memory("--mib", 48 * kGiB, gpu);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    CHECK(e.message() == "--mib asks for 48.0 GiB of memory, and the GPU has 24.0 GiB");
    CHECK(e.hint() == "use a smaller --mib");
  }
}

TEST_CASE("more memory than is free here is refused") {
  CHECK_NOTHROW(check_memory("--max_bytes", 1));
  CHECK_THROWS_AS(check_memory("--max_bytes", std::int64_t{1} << 60), Error);
}

TEST_CASE("torchrun's words for a number of processes are understood") {
  const auto count = [](const std::string& text, bool is_here = true) {
    return process_count("--nproc_per_node", text, is_here);
  };
  CHECK(count("3").number == 3);
  CHECK(count("cpu").number == usable_cores());
  CHECK((count("gpu").needs_gpu && !count("gpu").number));
  CHECK_FALSE(count("auto", false).number);
  CHECK_THROWS_WITH(count("cpu", false), Catch::Contains("not those of hosts"));
  for (const char* wrong : {"", "many", "2x", "2.5", "99999999999999999999"})
    CHECK_THROWS_WITH(count(wrong), Catch::Contains("is not a number of workers"));
}

TEST_CASE("a number outside its range is refused, by the flag") {
  CHECK_NOTHROW(check_range("--repeats", 1, 1, 10));
  CHECK_NOTHROW(check_range("--repeats", 10, 1, 10));
  CHECK_THROWS_WITH(check_range("--repeats", 0, 1, 10), "--repeats 0 is not between 1 and 10");
  CHECK_THROWS_AS(check_range("--repeats", 11, 1, 10), Error);
  for (const std::int64_t beyond : {INT64_MIN, INT64_MAX})
    CHECK_THROWS_WITH(check_range("--repeats", beyond, 1, 10), "--repeats is not between 1 and 10");
}
