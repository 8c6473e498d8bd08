#include "memory_fit.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"

#include "support/fake_cuda.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

std::uint64_t g_free_bytes = 0;

/// What require_memory says on a GPU with so much free memory; "" where the job fits.
std::string verdict(const Config& config, std::int64_t free_bytes) {
  g_free_bytes = static_cast<std::uint64_t>(free_bytes);
  CudaDeviceTable device = fake_cuda::device_table();
  device.memory_info = [](int, std::uint64_t* free, std::uint64_t* total) -> CudaResult {
    *free = g_free_bytes;
    *total = std::uint64_t{1} << 40;
    return nullptr;
  };
  const CudaTables tables{kCudaTableVersion, "fake", &device, nullptr, nullptr};
  const CudaModule module(tables);
  const CudaQueue queue(Device::cuda(0), module);
  try {
    require_memory(config, queue);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kDevice);
    return e.message() + " " + e.hint();
  }
  return "";
}

}  // namespace

TEST_CASE("a job that does not fit is refused with the largest micro-batch that does") {
  Config config = tiny_config();
  config.hardware.device = "cuda";
  config.training.seq_length = 8;
  config.batch.micro_batch_size = 3;
  const std::int64_t three = total_bytes(memory_table(config, 1));
  CHECK(verdict(config, three).empty());
  CHECK(verdict(config, three - 1).find("train_micro_batch_size_per_gpu = 2 fits") !=
        std::string::npos);
  CHECK(verdict(config, three - 1).find("scratch of matrix products and attention 32") !=
        std::string::npos);
  CHECK(verdict(config, 1000).find("no micro-batch fits") != std::string::npos);
}
