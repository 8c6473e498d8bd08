#include <cstdlib>

#include <catch2/catch.hpp>

#include "gpu_list.h"

using namespace hgt;

TEST_CASE("the driver's library lists its GPUs") {
  setenv("FAKE_GPUS", "3", 1);
  const auto list = gpus_from_nvml(FAKE_NVML, {"MIG-aaaa", "MIG-none"});
  REQUIRE(list);
  CHECK(list->problem.empty());
  REQUIRE(list->gpus.size() == 3);
  CHECK(list->gpus[0].name == "Older");
  CHECK(list->gpus[2].uuid == "GPU-33-of-the-test");
  CHECK(list->gpus[2].memory_bytes == std::int64_t{3} << 30);
  CHECK(list->driver_version == "580.65.06");
  CHECK(list->gpus[0].compute_capability == 80);
  CHECK(list->gpus[0].pci_bus_id == "0000:a1:00.0");
  CHECK(list->gpus[0].pcie_generation == 5);
  CHECK(list->gpus[0].pcie_width == 8);
  CHECK(list->gpus[0].pcie_max_width == 16);
  CHECK(list->gpus[0].nvlinks == 2);
  CHECK(list->gpus[0].links.at("GPU-22-of-the-test") == "NV");
  CHECK(list->gpus[0].links.at("GPU-33-of-the-test") == "SYS");
  CHECK(list->gpus[0].links.size() == 2);
  REQUIRE(list->migs.size() == 1);
  CHECK(list->migs[0].uuid == "MIG-aaaa");
}

TEST_CASE("a driver that does not start is reported as the reason") {
  setenv("FAKE_GPUS", "-1", 1);
  const auto list = gpus_from_nvml(FAKE_NVML, {});
  REQUIRE(list);
  CHECK(list->gpus.empty());
  CHECK(list->problem == "Driver/library version mismatch");
  CHECK(list->nvml_result == 18);
}

TEST_CASE("without the library there is no answer, and one without the functions has no GPUs") {
  CHECK_FALSE(gpus_from_nvml("/nowhere/libnvidia-ml.so.1", {}));
  const auto other = gpus_from_nvml("libz.so.1", {});
  if (other) CHECK(other->gpus.empty());
}
