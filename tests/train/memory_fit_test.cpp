#include "hgtrain/train/memory_fit.h"

#include <catch2/catch.hpp>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"

#include "support/fake_cuda.h"
#include "tiny_config.h"

using namespace hgt;

namespace {

std::uint64_t g_free_bytes = 0;

/// Calls fn with the queue of a GPU with so much free memory.
template <class Fn>
void with_free_memory(std::int64_t bytes, const Fn& fn) {
  g_free_bytes = static_cast<std::uint64_t>(bytes);
  CudaDeviceTable device = fake_cuda::device_table();
  device.memory_info = [](int, std::uint64_t* free, std::uint64_t* total) -> CudaResult {
    *free = g_free_bytes;
    *total = std::uint64_t{1} << 40;
    return nullptr;
  };
  const CudaTables tables{0, "fake", &device, nullptr, nullptr};
  const CudaModule module(tables);
  fn(CudaQueue(Device::cuda(0), module));
}

/// What require_memory says; "" if the job fits.
std::string verdict(const Config& config, std::int64_t free_bytes) {
  std::string said;
  with_free_memory(free_bytes, [&](const CudaQueue& queue) {
    try {
      require_memory(config, queue);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::kDevice);
      said = e.message() + " " + e.hint();
    }
  });
  return said;
}

/// What an error says after add_smaller_batch.
std::string with_advice(const std::string& message, const Config& config, std::int64_t free_bytes) {
  Error error(ErrorKind::kDevice, message);
  with_free_memory(free_bytes,
                   [&](const CudaQueue& queue) { add_smaller_batch(error, config, queue); });
  return error.render();
}

Config six_of_twelve() {
  Config config = tiny_config();
  config.hardware.device = "cuda";
  config.training.seq_length = 8;
  config.batch = {.train_batch_size = 12, .micro_batch_size = 6, .gradient_accumulation_steps = 2};
  return config;
}

}  // namespace

TEST_CASE("a job that does not fit is refused with the largest micro-batch that does") {
  const Config config = six_of_twelve();
  const std::int64_t six = total_bytes(memory_table(config, 1));
  CHECK(verdict(config, six).empty());
  CHECK(verdict(config, six - 1).find("it fits with train_micro_batch_size_per_gpu = 4; or ") !=
        std::string::npos);
  CHECK(verdict(config, six - 1).find("scratch of matrix products and attention 32") !=
        std::string::npos);
  CHECK(verdict(config, 1000).find("no setting makes it fit") != std::string::npos);
}

TEST_CASE("a plan counts on all of a GPU's memory if what is free has room for it") {
  Config config = six_of_twelve();
  constexpr std::int64_t kTotal = std::int64_t{1} << 40;
  Config planned = config;
  planned.hardware.gpu_bytes = kTotal;
  const std::int64_t bytes = total_bytes(memory_table(planned, 1));
  const auto plannable = [&](std::int64_t free_bytes) {
    std::int64_t out = -1;
    with_free_memory(free_bytes,
                     [&](const CudaQueue& queue) { out = plannable_bytes(config, queue); });
    return out;
  };
  CHECK(plannable(bytes) == kTotal);
  CHECK(plannable(bytes - 1) == 0);  // with the smallest chunks it may still fit
  config.hardware.oversubscribe = true;
  CHECK(plannable(kTotal) == 0);  // others take their part
}

TEST_CASE("if memory runs out all the same, a smaller micro-batch that fits is named") {
  const Config config = six_of_twelve();
  const std::int64_t six = total_bytes(memory_table(config, 1));
  const std::string full = "out of memory on cuda:0";
  CHECK(with_advice(full, config, six - 1).find("_per_gpu = 4 would fit") != std::string::npos);
  CHECK(with_advice(full, config, six * 2).find("_per_gpu = 4 would fit") != std::string::npos);
  CHECK(with_advice(full, config, 1000).find("would fit") == std::string::npos);
  CHECK(with_advice("another", config, six).find("would fit") == std::string::npos);
}
