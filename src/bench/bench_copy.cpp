#include <algorithm>
#include <cstring>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/bench/bench.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/cuda_queue.h"
#include "hgtrain/device/thread_pool.h"
#include "hgtrain/machine/resources.h"
#include "hgtrain/train/machine_rates.h"

#include "spread.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes per second if copy() moves `moved` bytes; the copy is done when it returns. The first
/// call, which touches the pages, does not count.
template <class Copy>
Json rate_of(std::int64_t repeats, double moved, const Copy& copy) {
  std::vector<double> rates;
  for (std::int64_t i = 0; i <= repeats; ++i) {
    const std::int64_t start_ns = now_ns();
    copy();
    if (i > 0) rates.push_back(moved / (ms_since(start_ns) * 1e-3));
  }
  return to_json(spread_of(rates));
}

Json on_cpu(const CopyBench& spec) {
  Json copies = Json::array();
  const Buffer from("copy from", spec.bytes), to("copy to", spec.bytes);
  std::memset(from.data(), 1, static_cast<std::size_t>(spec.bytes));
  for (int threads = 1; threads > 0;
       threads = threads == spec.threads ? 0 : std::min(2 * threads, spec.threads)) {
    ThreadPool pool(threads);
    const auto copy = [&] { copy_all(from, to, pool); };
    copies.push_back(
        {{"copy", "memory to memory"},
         {"threads", threads},
         {"bytes_per_sec", rate_of(spec.repeats, 2.0 * static_cast<double>(spec.bytes), copy)}});
  }
  return copies;
}

/// Memory of the module's device.
class ModuleMemory {
 public:
  ModuleMemory(const CudaModule& module, std::int64_t bytes) : device_(module.device()) {
    check(device_.allocate(0, static_cast<std::size_t>(bytes), &data_));
  }
  ~ModuleMemory() { device_.release(0, data_); }
  ModuleMemory(const ModuleMemory&) = delete;
  ModuleMemory& operator=(const ModuleMemory&) = delete;
  void* data() const { return data_; }

 private:
  const CudaDeviceTable& device_;
  void* data_ = nullptr;
};

Json on_gpu(const CopyBench& spec, const CudaModule& module) {
  const CudaQueue queue(Device::cuda(0), module);
  const auto bytes = static_cast<double>(spec.bytes);
  const ModuleMemory from(module, spec.bytes), to(module, spec.bytes);
  const PinnedMemory pinned = allocate_pinned(module, static_cast<std::size_t>(spec.bytes));
  const Buffer pageable("copy on the host", spec.bytes);

  Json copies = Json::array();
  const auto measure = [&](const char* name, void* target, const void* source, double moved) {
    const auto copy = [&] {
      queue.copy(target, source, static_cast<std::size_t>(spec.bytes));
      queue.synchronize();
    };
    copies.push_back({{"copy", name}, {"bytes_per_sec", rate_of(spec.repeats, moved, copy)}});
  };
  measure("device to device", to.data(), from.data(), 2 * bytes);
  measure("host to device", to.data(), pinned.get(), bytes);
  measure("device to host", pinned.get(), from.data(), bytes);
  measure("host to device, pageable", to.data(), pageable.data(), bytes);
  measure("device to host, pageable", pageable.data(), from.data(), bytes);
  return copies;
}

}  // namespace

Json bench_copy(const CopyBench& spec, const CudaModule* module) {
  return {{"bench", "copy"},
          {"cpu", cpu_name()},
          {"device", module == nullptr ? "cpu" : "cuda"},
          {"bytes", spec.bytes},
          {"repeats", spec.repeats},
          {"copies", module == nullptr ? on_cpu(spec) : on_gpu(spec, *module)}};
}

}  // namespace hgt
