#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "hgtrain/base/text.h"

#include "gpu_list.h"

namespace hgt {
namespace {

// The few declarations of nvml.h (CUDA toolkit) that are needed; its ABI is stable.
using Result = int;  // 0 is success
using Device = void*;
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
constexpr unsigned kMaxNvlinks = 18;
constexpr int kCapabilityNvlink = 2;  // of nvmlGpuP2PCapsIndex_t

std::string text_of_topology(int level) {
  static const std::map<int, const char*> names = {{0, "same board"}, {10, "PIX"},  {20, "PXB"},
                                                   {30, "PHB"},       {40, "NODE"}, {50, "SYS"}};
  const auto name = names.find(level);
  return name == names.end() ? "" : name->second;
}

/// -1 if the system does not say.
int numa_node_of(const std::string& pci_bus_id) {
  int node = -1;
  std::ifstream("/sys/bus/pci/devices/" + pci_bus_id + "/numa_node") >> node;
  return node;
}

/// NVML, open for as long as this lives.
class Nvml {
 public:
  explicit Nvml(void* library) : library_(library) {
    started_ = call<Result()>("nvmlInit_v2");
    if (started_ != 0) return;
    if (call<Result(unsigned*)>("nvmlDeviceGetCount_v2", &count_) != 0) count_ = 0;
  }
  ~Nvml() {
    if (started_ == 0) call<Result()>("nvmlShutdown");
    dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned count() const { return count_; }
  Result started() const { return started_; }
  std::string driver_version() const {
    std::array<char, 96> text{};
    call<Result(char*, unsigned)>("nvmlSystemGetDriverVersion", text.data(), kTextRoom);
    return text.data();
  }
  std::string problem() const {
    if (started_ == 0) return "";
    const auto describe = symbol<const char*(Result)>("nvmlErrorString");
    return describe ? describe(started_) : fmt::format("NVML error {}", started_);
  }

  Device by_index(unsigned index) const {
    Device device = nullptr;
    call<Result(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device);
    return device;
  }
  Device by_uuid(const std::string& uuid) const {
    Device device = nullptr;
    call<Result(const char*, Device*)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device);
    return device;
  }

  VisibleGpu describe(Device device) const {
    VisibleGpu gpu;
    gpu.uuid = text("nvmlDeviceGetUUID", device);
    gpu.name = text("nvmlDeviceGetName", device);
    MemoryInfo memory{};
    if (call<Result(Device, MemoryInfo*)>("nvmlDeviceGetMemoryInfo", device, &memory) == 0)
      gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
    int major = 0, minor = 0;
    if (call<Result(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major,
                                         &minor) == 0)
      gpu.compute_capability = 10 * major + minor;
    gpu.pcie_generation = number("nvmlDeviceGetMaxPcieLinkGeneration", device);
    gpu.pcie_width = number("nvmlDeviceGetCurrPcieLinkWidth", device);
    gpu.pcie_max_width = number("nvmlDeviceGetMaxPcieLinkWidth", device);
    gpu.pci_bus_id = pci_bus_id(device);
    gpu.numa_node = numa_node_of(gpu.pci_bus_id);
    using GetState = Result(Device, unsigned, int*);
    for (unsigned link = 0; link < kMaxNvlinks; ++link)
      if (int up = 0; call<GetState>("nvmlDeviceGetNvLinkState", device, link, &up) == 0)
        gpu.nvlinks += up;
    return gpu;
  }

  /// How two GPUs reach each other; "" if NVML does not say.
  std::string link(Device from, Device to) const {
    int status = -1, level = -1;
    if (call<Result(Device, Device, int, int*)>("nvmlDeviceGetP2PStatus", from, to,
                                                kCapabilityNvlink, &status) == 0 &&
        status == 0)
      return "NV";
    call<Result(Device, Device, int*)>("nvmlDeviceGetTopologyCommonAncestor", from, to, &level);
    return text_of_topology(level);
  }

 private:
  static constexpr unsigned kTextRoom = 95;

  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  /// -1 if the library lacks the function.
  template <class Function, class... Args>
  Result call(const char* name, Args... args) const {
    Function* function = symbol<Function>(name);
    return function ? function(args...) : -1;
  }
  std::string text(const char* name, Device device) const {
    std::array<char, kTextRoom + 1> text{};
    call<Result(Device, char*, unsigned)>(name, device, text.data(), kTextRoom);
    return text.data();
  }
  int number(const char* name, Device device) const {
    unsigned value = 0;
    const bool known = call<Result(Device, unsigned*)>(name, device, &value) == 0;
    return known ? static_cast<int>(value) : 0;
  }
  /// NVML's domain has eight digits, that of sysfs four; sysfs uses lower case.
  std::string pci_bus_id(Device device) const {
    PciInfo pci{};
    if (call<Result(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) != 0) return "";
    std::string id(pci.bus_id, strnlen(pci.bus_id, sizeof pci.bus_id));
    if (id.size() > 12) id.erase(0, id.size() - 12);
    return lower(id);
  }

  void* library_;
  Result started_ = -1;
  unsigned count_ = 0;
};

}  // namespace

std::optional<GpuList> gpus_from_nvml(const std::string& library,
                                      const std::vector<std::string>& wanted_migs) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return std::nullopt;
  const Nvml nvml(opened);
  GpuList list;
  list.nvml_result = nvml.started();
  list.problem = nvml.problem();
  if (!list.problem.empty()) return list;
  list.driver_version = nvml.driver_version();
  std::vector<Device> devices;
  for (unsigned i = 0; i < nvml.count(); ++i)
    if (Device device = nvml.by_index(i)) devices.push_back(device);
  for (Device device : devices) list.gpus.push_back(nvml.describe(device));
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (a != b) list.gpus[a].links[list.gpus[b].uuid] = nvml.link(devices[a], devices[b]);
  for (const std::string& uuid : wanted_migs)
    if (Device mig = nvml.by_uuid(uuid)) list.migs.push_back(nvml.describe(mig));
  return list;
}

}  // namespace hgt
