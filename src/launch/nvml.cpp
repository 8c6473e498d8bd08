#include <array>
#include <dlfcn.h>
#include <memory>

#include <fmt/format.h>

#include "gpu_list.h"

namespace hgt {
namespace {

// The few declarations of nvml.h (CUDA toolkit) that are needed; its ABI is stable.
using Result = int;  // 0 is success
using Device = void*;
struct MemoryInfo {
  unsigned long long total, free, used;
};

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
  std::string problem() const {
    if (started_ == 0) return "";
    const auto describe = symbol<const char*(Result)>("nvmlErrorString");
    return describe ? describe(started_) : fmt::format("NVML error {}", started_);
  }

  std::optional<VisibleGpu> by_index(unsigned index) const {
    Device device = nullptr;
    if (call<Result(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", index, &device) != 0)
      return std::nullopt;
    return describe(device);
  }
  std::optional<VisibleGpu> by_uuid(const std::string& uuid) const {
    Device device = nullptr;
    if (call<Result(const char*, Device*)>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &device) != 0)
      return std::nullopt;
    return describe(device);
  }

 private:
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  /// -1 where the library lacks the function.
  template <class Function, class... Args>
  Result call(const char* name, Args... args) const {
    Function* function = symbol<Function>(name);
    return function ? function(args...) : -1;
  }

  VisibleGpu describe(Device device) const {
    VisibleGpu gpu;
    std::array<char, 96> text{};
    using GetText = Result(Device, char*, unsigned);
    const unsigned room = text.size() - 1;
    if (call<GetText>("nvmlDeviceGetUUID", device, text.data(), room) == 0) gpu.uuid = text.data();
    if (call<GetText>("nvmlDeviceGetName", device, text.data(), room) == 0) gpu.name = text.data();
    MemoryInfo memory{};
    if (call<Result(Device, MemoryInfo*)>("nvmlDeviceGetMemoryInfo", device, &memory) == 0)
      gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
    return gpu;
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
  list.problem = nvml.problem();
  if (!list.problem.empty()) return list;
  for (unsigned i = 0; i < nvml.count(); ++i)
    if (auto gpu = nvml.by_index(i)) list.gpus.push_back(std::move(*gpu));
  for (const std::string& uuid : wanted_migs)
    if (auto mig = nvml.by_uuid(uuid)) list.migs.push_back(std::move(*mig));
  return list;
}

}  // namespace hgt
