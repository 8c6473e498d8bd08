#include "hgtrain/machine/visible_gpus.h"

#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "gpu_list.h"

namespace hgt {
namespace {

std::string count_text(std::size_t count) {
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

/// "3 GPUs (2 x A, 1 x B)".
std::string describe(const std::vector<VisibleGpu>& gpus) {
  std::map<std::string, int> models;
  for (const VisibleGpu& gpu : gpus)
    if (!gpu.name.empty()) ++models[gpu.name];
  std::string list;
  for (const auto& [model, count] : models)
    list += fmt::format("{}{} x {}", list.empty() ? "" : ", ", count, model);
  return count_text(gpus.size()) + (list.empty() ? "" : " (" + list + ")");
}

[[noreturn]] void refuse(int wanted, const VisibleDevices& devices, const std::string& hint) {
  throw Error(
      ErrorKind::kDevice,
      fmt::format("this command needs {}, but {} can be used: {}",
                  count_text(static_cast<std::size_t>(wanted)), devices.gpus.size(), devices.found),
      hint);
}

}  // namespace

VisibleDevices visible_gpus(std::chrono::milliseconds limit) {
  const char* selection = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> migs;
  for (const std::string& entry : selection_entries(selection))
    if (entry.starts_with("MIG-")) migs.push_back(entry);
  auto list =
      within_driver_limit([migs] { return gpus_from_nvml("libnvidia-ml.so.1", migs); }, limit);
  if (!list) list = gpus_from_files("");

  VisibleDevices out;
  out.gpus = select_gpus(*list, selection);
  out.found = list->problem.empty() ? describe(list->gpus) : list->problem;
  if (selection && list->problem.empty())
    out.found +=
        fmt::format(", of which CUDA_VISIBLE_DEVICES={} leaves {}", selection, out.gpus.size());
  out.machine = std::move(*list);
  return out;
}

void require_gpus(int wanted, const VisibleDevices& devices) {
  const int there = static_cast<int>(devices.gpus.size());
  if (wanted <= there) return;
  refuse(wanted, devices,
         there ? fmt::format("--num_gpus {} uses all that can be used", there)
               : "for workers on the CPU, use --num_workers N");
}

void require_gpu(const VisibleDevices& devices) {
  if (devices.gpus.empty())
    refuse(1, devices, "use --device cpu, or run `hgtrain doctor`, which says what is missing");
}

}  // namespace hgt
