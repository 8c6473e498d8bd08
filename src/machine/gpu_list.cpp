#include "gpu_list.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "hgtrain/base/text.h"

#include "folder_entries.h"

namespace hgt {
namespace {

/// The driver's file of one GPU: lines "Model: ...", "GPU UUID: ...".
VisibleGpu read_information(const std::string& path) {
  VisibleGpu gpu;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = trimmed(line.substr(0, colon));
    if (name == "Model") gpu.name = trimmed(line.substr(colon + 1));
    if (name == "GPU UUID") gpu.uuid = trimmed(line.substr(colon + 1));
  }
  return gpu;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

/// The only GPU whose UUID begins with this, or nullptr.
const VisibleGpu* with_uuid(const std::vector<VisibleGpu>& gpus, const std::string& start) {
  const VisibleGpu* found = nullptr;
  for (const VisibleGpu& gpu : gpus) {
    if (!gpu.uuid.starts_with(start)) continue;
    if (found) return nullptr;
    found = &gpu;
  }
  return found;
}

const VisibleGpu* find_entry(const GpuList& list, const std::string& entry) {
  if (is_number(entry)) {
    const auto index = static_cast<std::size_t>(std::stoul(entry));
    return index < list.gpus.size() ? &list.gpus[index] : nullptr;
  }
  if (entry.starts_with("GPU-")) return with_uuid(list.gpus, entry);
  if (entry.starts_with("MIG-")) return with_uuid(list.migs, entry);
  return nullptr;
}

}  // namespace

GpuList gpus_from_files(const std::string& root) {
  GpuList list;
  const std::string driver = root + "/proc/driver/nvidia/gpus";
  for (const auto& gpu : folder_entries(driver))
    list.gpus.push_back(read_information(gpu / "information"));
  if (!list.gpus.empty()) return list;
  for (const auto& file : folder_entries(root + "/dev"))
    if (const std::string name = file.filename();
        name.starts_with("nvidia") && is_number(name.substr(6)))
      list.gpus.emplace_back();
  if (list.gpus.empty())
    list.problem = "there is no NVIDIA driver (no libnvidia-ml.so.1, no /dev/nvidia0)";
  return list;
}

std::vector<std::string> selection_entries(const char* selection) {
  std::vector<std::string> entries;
  const std::string text = selection ? selection : "";
  for (std::size_t at = 0; selection && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    entries.push_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return entries;
}

std::vector<VisibleGpu> select_gpus(const GpuList& list, const char* selection) {
  if (!selection) return list.gpus;
  std::vector<VisibleGpu> out;
  std::set<const VisibleGpu*> taken;
  for (const std::string& entry : selection_entries(selection)) {
    const VisibleGpu* gpu = find_entry(list, entry);
    if (!gpu || !taken.insert(gpu).second) break;  // CUDA ignores all from the first invalid one on
    out.push_back(*gpu);
  }
  return out;
}

}  // namespace hgt
