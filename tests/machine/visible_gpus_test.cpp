#include "hgtrain/machine/visible_gpus.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

TEST_CASE("a search for GPUs says what was found, even if there are none") {
  CHECK_FALSE(visible_gpus().found.empty());
}

TEST_CASE("too few GPUs end with 3, and the error says what was found and what to type") {
  VisibleDevices two;
  two.gpus.resize(2);
  two.found = "2 GPUs (2 x X)";
  CHECK_NOTHROW(require_gpus(2, two));
  try {
    require_gpus(8, two);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    CHECK(e.message() == "this command needs 8 GPUs, but 2 can be used: 2 GPUs (2 x X)");
    CHECK(e.hint() == "--num_gpus 2 uses all that can be used");
  }
  CHECK_THROWS_AS(require_gpus(1, {}), Error);
  CHECK_NOTHROW(require_gpu(two));
  VisibleDevices none;
  none.found = "no driver";
  try {
    require_gpu(none);
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.message() == "this command needs 1 GPU, but 0 can be used: no driver");
    CHECK_THAT(e.hint(), Catch::Matchers::Contains("--device cpu"));
  }
}

TEST_CASE("a driver that never answers is an error after the limit") {
  REQUIRE(dlopen(FAKE_NVML, RTLD_NOW) != nullptr);  // so it is the one that has this name
  setenv("FAKE_GPUS", "-2", 1);
  try {
    visible_gpus(std::chrono::milliseconds(500));
    FAIL("no error");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    CHECK(e.message() == "the GPU driver has not answered for 0.5 s");
  }
  setenv("FAKE_GPUS", "0", 1);
  CHECK_THAT(visible_gpus().found, Catch::StartsWith("0 GPUs"));
}
