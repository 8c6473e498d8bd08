#include <cstring>

#include <catch2/catch.hpp>

#include "hgtrain/device/cuda_module.h"
#include "hgtrain/device/cuda_table.h"

#include "support/roots.h"

// The built module. Without a driver every function must say so; with a device they must work.

namespace hgt {
namespace {

using Catch::Contains;

CudaModule built_module() {
  return CudaModule({{build_root()}, {}});
}

bool have_device(const CudaModule& module) {
  return module.probe().device_count > 0;
}

TEST_CASE("the built module opens and says what it was built with") {
  const CudaModule module = built_module();
  CHECK_THAT(module.tables().build, Contains("CUDA") && Contains("sm_"));
  const CudaProbe probe = module.probe();
  CHECK(probe.runtime_version >= 12000);
  CHECK(probe.nccl_version > 20000);
  CHECK(probe.cublaslt_version > 0);
  if (probe.driver_version == 0)
    CHECK_THROWS_WITH(require_device(probe), Contains("no NVIDIA driver"));
}

TEST_CASE("without a device each function fails with CUDA's message and the call") {
  const CudaModule module = built_module();
  if (have_device(module)) return;
  const CudaDeviceTable& device = module.device();
  CudaDeviceProperties properties;
  void* memory = nullptr;
  CudaStreamState* stream = nullptr;
  CudaEventState* event = nullptr;
  std::uint64_t free = 0, total = 0;
  const auto refused = [](CudaResult result) {
    REQUIRE(result != nullptr);
    CHECK(result->kind == static_cast<int>(ErrorKind::kDevice));
    CHECK_THAT(result->message, Contains("CUDA"));
    CHECK_THAT(result->context, Contains("cuda_device.cpp"));
  };
  refused(device.properties(0, &properties));
  refused(device.memory_info(0, &free, &total));
  refused(device.allocate(0, 64, &memory));
  refused(device.allocate_pinned(64, &memory));
  refused(device.create_stream(0, &stream));
  refused(device.create_event(0, &event));
  CHECK(memory == nullptr);
  CHECK(stream == nullptr);
  CHECK(event == nullptr);
}

TEST_CASE("memory, streams, events and copies work on a device") {
  const CudaModule module = built_module();
  if (!have_device(module)) return;
  const CudaDeviceTable& device = module.device();
  CudaStreamState *first = nullptr, *second = nullptr;
  CudaEventState* event = nullptr;
  void *memory = nullptr, *host = nullptr;
  check(device.create_stream(0, &first));
  check(device.create_stream(0, &second));
  check(device.create_event(0, &event));
  check(device.allocate(0, 1024, &memory));
  check(device.allocate_pinned(1024, &host));
  check(device.fill_bytes(memory, 0x5a, 1024, first));
  check(device.record_event(event, first));
  check(device.wait_event(second, event));
  check(device.copy(host, memory, 1024, second));
  check(device.synchronize_stream(second));
  bool done = false;
  check(device.query_event(event, &done));
  CHECK(done);
  float ms = -1;
  check(device.elapsed_ms(event, event, &ms));
  CHECK(ms == 0);
  CHECK(static_cast<unsigned char*>(host)[1023] == 0x5a);

  CudaDeviceProperties properties;
  check(device.properties(0, &properties));
  CHECK(std::strlen(properties.uuid) == 40);
  void* huge = nullptr;
  const CudaResult result = device.allocate(0, std::size_t{1} << 60, &huge);
  REQUIRE(result != nullptr);
  CHECK_THAT(result->message, Contains("out of memory on cuda:0"));

  check(device.release(0, memory));
  check(device.release_pinned(host));
  check(device.destroy_event(event));
  check(device.destroy_stream(second));
  check(device.destroy_stream(first));
}

}  // namespace
}  // namespace hgt
