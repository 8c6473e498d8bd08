#include "hgtrain/machine/cuda_driver.h"

#include <cstdlib>

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("the driver's library reports its CUDA version and its devices") {
  setenv("FAKE_GPUS", "3", 1);
  const CudaDriver driver = ask_cuda_driver(FAKE_CUDA);
  CHECK(driver.opened);
  CHECK(driver.result == 0);
  CHECK(driver.version == 13010);
  CHECK(cuda_version_text(driver.version) == "13.1");
  CHECK(driver.devices == 3);
}

TEST_CASE("a driver that does not start still reports its CUDA version") {
  setenv("FAKE_CUINIT", "100", 1);
  const CudaDriver driver = ask_cuda_driver(FAKE_CUDA);
  unsetenv("FAKE_CUINIT");
  CHECK(driver.result == 100);
  CHECK(driver.version == 13010);
  CHECK(driver.devices == 0);
}

TEST_CASE("a missing library is distinguished from one that cannot be opened") {
  const CudaDriver absent = ask_cuda_driver("libhgt_nowhere.so.1");
  CHECK_FALSE(absent.opened);
  CHECK(absent.absent);
  const CudaDriver broken = ask_cuda_driver("/dev/null");
  CHECK_FALSE(broken.opened);
  CHECK_FALSE(broken.absent);
  CHECK_FALSE(broken.why.empty());
}
