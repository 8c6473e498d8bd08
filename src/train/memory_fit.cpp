#include "hgtrain/train/memory_fit.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/fit.h"
#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/error_texts.h"
#include "hgtrain/config/config.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

Fits fits_in(std::int64_t bytes) {
  return [bytes](const Config& config) { return worker_bytes(config) <= bytes; };
}

/// The largest allocations, as text.
std::string largest_of(std::vector<Allocation> table) {
  constexpr std::size_t kNamed = 5;
  std::stable_sort(table.begin(), table.end(),
                   [](const Allocation& a, const Allocation& b) { return a.bytes > b.bytes; });
  std::vector<std::string> names;
  for (const Allocation& a : table)
    if (names.size() < kNamed) names.push_back(fmt::format("{} {}", a.name, human_bytes(a.bytes)));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::int64_t plannable_bytes(Config config, const CudaQueue& queue) {
  if (config.hardware.oversubscribe) return 0;
  const CudaQueue::Memory memory = queue.memory();
  config.hardware.gpu_bytes = memory.total_bytes;
  return fits_in(memory.free_bytes)(config) ? memory.total_bytes : 0;
}

void require_memory(const Config& config, const CudaQueue& queue) {
  const CudaQueue::Memory memory = queue.memory();
  const auto threads = static_cast<int>(config.hardware.threads);
  const std::vector<Allocation> table = memory_table(config, threads);
  const std::int64_t asked = total_bytes(table), room = memory.free_bytes;
  if (asked <= room) return;
  const auto [asked_text, room_text] = human_bytes(asked, room);
  throw Error(ErrorKind::kDevice,
              fmt::format("the job takes {} of memory, and {} of {} are free on {}: {}", asked_text,
                          room_text, human_bytes(memory.total_bytes), name_of(queue.device()),
                          largest_of(table)),
              how_to_fit(config, fits_in(room), DType::kF16));
}

void add_smaller_batch(Error& error, const Config& config, const CudaQueue& queue) {
  if (!error.message().starts_with(kOutOfGpuMemory)) return;
  const std::int64_t room = queue.memory().free_bytes + Buffer::held_on_gpus();
  const std::int64_t smaller =
      largest_micro_batch(config, fits_in(room), config.batch.micro_batch_size);
  if (smaller == 0) return;
  Error advised(
      error.kind(), error.message(),
      fmt::format("train_micro_batch_size_per_gpu = {} would fit; nvidia-smi shows who else "
                  "uses the device",
                  smaller));
  for (const std::string& where : error.context()) advised.in(where);
  error = advised;
}

}  // namespace hgt
