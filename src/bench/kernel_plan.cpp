#include "kernel_plan.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/bench/bench.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

#include "kernel_table.inc"

constexpr int kWidths[] = {16, 8, 4, 2, 1};

Json to_json(const CompiledKernel::Access& access) {
  Json out = Json::object();
  for (std::size_t i = 0; i < std::size(kWidths); ++i)
    if (access[i] != 0) out[std::to_string(kWidths[i])] = access[i];
  return out;
}

Json to_json(const CompiledKernel& k) {
  const Occupancy occupancy = occupancy_of(k.sm, k.threads, k.registers, k.shared_bytes);
  return {{"sm", k.sm},
          {"threads", k.threads},
          {"registers", k.registers},
          {"shared_bytes", k.shared_bytes},
          {"local_bytes", k.local_bytes},
          {"blocks_per_multiprocessor", occupancy.blocks},
          {"occupancy", occupancy.share},
          {"limit", occupancy.limit},
          {"loads", to_json(k.loads)},
          {"stores", to_json(k.stores)},
          {"loads_in_loops", to_json(k.loop_loads)},
          {"stores_in_loops", to_json(k.loop_stores)},
          {"shared_loads", to_json(k.shared_loads)},
          {"shared_stores", to_json(k.shared_stores)},
          {"atomics", k.atomics}};
}

/// Whether a step with this compute type may run the kernel, which excludes those of the other
/// 16-bit type.
bool is_of(DType type, std::string_view kernel) {
  for (const DType other : {DType::kBF16, DType::kF16})
    if (other != type && kernel.find(name_of(other)) != kernel.npos) return false;
  return true;
}

}  // namespace

std::span<const CompiledKernel> compiled_kernels() {
  return kCompiledKernels;
}

Occupancy occupancy_of(int sm, int threads, int registers, int shared_bytes) {
  // The resources of a multiprocessor (CUDA C++ programming guide, technical specifications per
  // compute capability), and the units in which they are allocated.
  constexpr int kWarpThreads = 32, kWarps = 64, kBlocks = 32, kRegisters = 65536, kParts = 4;
  constexpr int kRegisterUnit = 256, kSharedUnit = 128, kReservedShared = 1024;
  if (sm != 80 && sm != 90)
    throw Error(ErrorKind::kInternal, fmt::format("the limits of sm_{} are not known", sm));
  const int all_shared = (sm == 80 ? 164 : 228) * 1024;
  const std::int64_t warps = round_up(threads, kWarpThreads) / kWarpThreads;
  const std::int64_t of_warp =
      std::max<std::int64_t>(round_up(registers * kWarpThreads, kRegisterUnit), kRegisterUnit);
  // A warp's registers are those of the part of the multiprocessor that runs it.
  const std::int64_t register_warps = kRegisters / kParts / of_warp * kParts;
  const std::int64_t of_block = round_up(shared_bytes + kReservedShared, kSharedUnit);
  const std::pair<std::int64_t, const char*> limits[] = {{kWarps / warps, "threads"},
                                                         {kBlocks, "blocks"},
                                                         {register_warps / warps, "registers"},
                                                         {all_shared / of_block, "shared memory"}};
  const auto [blocks, limit] =
      std::ranges::min(limits, {}, &std::pair<std::int64_t, const char*>::first);
  return {static_cast<int>(blocks), static_cast<double>(blocks * warps) / kWarps, limit};
}

Json plan_ops(DType type) {
  Json kernels = Json::array();
  for (const CompiledKernel& kernel : compiled_kernels()) {
    if (!is_of(type, kernel.name)) continue;
    if (kernels.empty() || kernels.back()["kernel"] != kernel.name ||
        kernels.back()["source"] != kernel.source)
      kernels.push_back(
          {{"source", kernel.source}, {"kernel", kernel.name}, {"devices", Json::array()}});
    kernels.back()["devices"].push_back(to_json(kernel));
  }
  return {{"bench", "ops plan"},
          {"dtype", name_of(type)},
          {"nvcc", kNvccVersion},
          {"kernels", kernels}};
}

}  // namespace hgt
