#include "hgtrain/machine/diagnosis.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <sstream>

#include <fmt/format.h>

namespace hgt {
namespace {

struct GpuFinding {
  std::string state;
  Finding finding;
};
using Found = std::optional<GpuFinding>;

// CUresult and nvmlReturn_t.
constexpr int kStandIn = 34, kNoDevice = 100, kNotReady = 802, kMismatch = 803;
constexpr int kNvmlNoPermission = 4, kNvmlMismatch = 18;

bool gpu_is_there(const Machine& m) {
  return !m.files.pci_gpus.empty() || !m.files.devices.empty() || !m.devices.machine.gpus.empty();
}

std::string driver_name(const Machine& m) {
  const std::string& version = m.devices.machine.driver_version.empty()
                                   ? m.files.kernel_driver
                                   : m.devices.machine.driver_version;
  return version.empty() ? "the NVIDIA driver" : "the NVIDIA driver " + version;
}

/// libcuda could not be opened.
GpuFinding without_library(const Machine& m) {
  if (!m.driver.absent)
    return {"not_started",
            {"libcuda.so.1 cannot be opened: " + m.driver.why, "install the driver again"}};
  if (m.devices.machine.nvml_result >= 0 || !m.files.kernel_driver.empty())
    return {"no_driver_library",
            {driver_name(m) + " is installed, but its library libcuda.so.1 is not found",
             "in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility; otherwise install "
             "the driver's CUDA library (Debian: libcuda1), or name its folder in "
             "LD_LIBRARY_PATH"}};
  return {"no_driver",
          {fmt::format("this machine has {}, but no NVIDIA driver",
                       m.files.pci_gpus.size() > 1 ? fmt::format("{} GPUs", m.files.pci_gpus.size())
                                                   : "a GPU"),
           "install the driver (nvidia-smi must work); in a container, pass the GPUs in: docker "
           "run --gpus all"}};
}

Found permission(const Machine& m) {
  const std::string refused = m.files.refused();
  if (refused.empty() && m.devices.machine.nvml_result != kNvmlNoPermission) return std::nullopt;
  return GpuFinding{
      "no_permission",
      {fmt::format("this user may not use the GPUs: {}",
                   refused.empty() ? "NVML says Insufficient Permissions" : refused),
       "join the group of the files (ls -l /dev/nvidia*), or chmod a+rw /dev/nvidia*; in a "
       "container or job, request the GPUs (docker run --gpus all, sbatch --gpus N)"}};
}

/// The driver shows no device to this process.
Found no_device(const Machine& m) {
  if (!gpu_is_there(m)) return GpuFinding{"none", {}};
  if (m.selection != nullptr && !m.devices.machine.gpus.empty() && m.devices.gpus.empty()) {
    const std::string selection = m.selection;
    if (selection.empty() || selection == "-1") return GpuFinding{"hidden", {}};
    return GpuFinding{"wrong_selection",
                      {fmt::format("CUDA_VISIBLE_DEVICES={} names none of the {} here", selection,
                                   m.devices.machine.gpus.size()),
                       "unset it, or name a number or UUID that nvidia-smi -L lists"}};
  }
  return GpuFinding{"no_device",
                    {driver_name(m) + " shows no device",
                     "nvidia-smi -L must list one, and dmesg | grep NVRM says why not; in a "
                     "container, pass the GPUs in (docker run --gpus all)"}};
}

/// cuInit gave another result than success.
Found not_started(const Machine& m) {
  const int result = m.driver.result;
  if (result == kStandIn)
    return GpuFinding{
        "no_driver_library",
        {"the libcuda.so.1 that was found is the toolkit's, which is only for linking",
         "remove the toolkit's folder of such libraries from LD_LIBRARY_PATH"}};
  if (result == kMismatch || m.devices.machine.nvml_result == kNvmlMismatch)
    return GpuFinding{"driver_mismatch",
                      {"the driver's library and its kernel module have different versions",
                       "restart the machine, or the container; after an update the old kernel "
                       "module is still loaded"}};
  if (const Found refused = permission(m)) return refused;
  if (result == kNotReady)
    return GpuFinding{"not_ready",
                      {"the NVSwitch fabric is not ready (CUDA error 802)",
                       "systemctl start nvidia-fabricmanager"}};
  if (result == kNoDevice) return no_device(m);
  const auto& devices = m.files.devices;
  const bool uvm =
      devices.empty() || std::any_of(devices.begin(), devices.end(),
                                     [](const auto& f) { return f.path == "/dev/nvidia-uvm"; });
  return GpuFinding{"not_started",
                    {fmt::format("CUDA does not start: cuInit gives error {}", result),
                     uvm ? "nvidia-smi and dmesg | grep NVRM may say why"
                         : "/dev/nvidia-uvm is missing: modprobe nvidia_uvm, or nvidia-modprobe -u "
                           "-c=0"}};
}

/// The driver must support the toolkit's major version, which is at least 12.
Found too_old_driver(const Machine& m) {
  int needed = m.module.runtime_version;
  for (const CudaLibrary& library : m.libraries)
    if (needed == 0 && library.name == "CUDA runtime") needed = library.number;
  needed = std::max(needed, 12000);
  if (m.driver.version == 0 || m.driver.version / 1000 >= needed / 1000) return std::nullopt;
  return GpuFinding{
      "driver_too_old",
      {fmt::format("{} is too old: it supports CUDA {}, but this build needs CUDA {}",
                   driver_name(m), cuda_version_text(m.driver.version), cuda_version_text(needed)),
       hint_for_old_driver(m.driver.version)}};
}

/// The oldest architecture in "0.1.0, CUDA 13.0, sm_75 sm_80"; 0 if it names none.
int oldest_architecture(const std::string& build) {
  int oldest = 0;
  std::istringstream words(build);
  for (std::string word; words >> word;)
    if (word.starts_with("sm_"))
      oldest = std::min(oldest == 0 ? 1000 : oldest, std::atoi(word.c_str() + 3));
  return oldest;
}

Found module_problem(const Machine& m) {
  if (!m.module.worker_problem.empty()) return GpuFinding{"no_module", {}};
  if (!m.module.opened) return GpuFinding{"no_module", {m.module.problem, m.module.hint}};
  if (m.module.status != 0)
    return GpuFinding{"not_started",
                      {fmt::format("CUDA does not start in the worker: {} (error {})",
                                   m.module.status_text, m.module.status),
                       "nvidia-smi and dmesg | grep NVRM may say why"}};
  const int oldest = oldest_architecture(m.module.build);
  for (const VisibleGpu& gpu : m.devices.gpus)
    if (gpu.compute_capability > 0 && gpu.compute_capability < oldest)
      return GpuFinding{"gpu_too_old",
                        {fmt::format("{} is sm_{}, but this build supports sm_{} and newer",
                                     gpu.name, gpu.compute_capability, oldest),
                         "exclude it with CUDA_VISIBLE_DEVICES, or build with a toolkit that "
                         "supports it: scripts/build -Dgpu_arch=..."}};
  return std::nullopt;
}

GpuFinding gpu_state(const Machine& m) {
  if (!m.driver.opened && m.driver.absent && !gpu_is_there(m)) return {"none", {}};
  if (!m.driver.opened) return without_library(m);
  Found found;
  if (m.driver.result != 0) found = not_started(m);
  if (!found) found = too_old_driver(m);
  if (!found && m.driver.devices == 0) found = no_device(m);
  if (!found) found = module_problem(m);
  return found.value_or(GpuFinding{"usable", {}});
}

void advise_on_limits(const Resources& r, bool infiniband, std::vector<Finding>& advice) {
  constexpr std::int64_t kLittleShm = std::int64_t{64} << 20;
  if (r.shm_free_bytes < kLittleShm)
    advice.push_back(
        {fmt::format("/dev/shm has {} MiB free; NCCL needs more on a machine with several GPUs",
                     r.shm_free_bytes >> 20),
         "docker run --shm-size 1g (or --ipc host)"});
  if (r.cpu_quota > 0 && r.cpu_quota < r.usable_cores)
    advice.push_back({fmt::format("the control group allows the CPU time of {:.4g} of {} cores",
                                  r.cpu_quota, r.usable_cores),
                      fmt::format("hardware.threads times workers should be at most {}",
                                  std::max(1, static_cast<int>(r.cpu_quota)))});
  for (const UserLimit& limit : r.limits) {
    if (limit.name == "nofile" && limit.soft != kUnlimited && limit.soft < kUsualFiles)
      advice.push_back({fmt::format("only {} files may be open at once", limit.soft),
                        fmt::format("ulimit -n {}", kUsualFiles)});
    if (limit.name == "memlock" && limit.soft != kUnlimited && infiniband)
      advice.push_back({"locked memory is limited, but InfiniBand needs it unlimited",
                        "ulimit -l unlimited; docker run --ulimit memlock=-1"});
  }
}

void advise_on_gpus(const std::vector<VisibleGpu>& gpus, std::vector<Finding>& advice) {
  for (const VisibleGpu& gpu : gpus)
    if (gpu.pcie_width > 0 && gpu.pcie_width < gpu.pcie_max_width)
      advice.push_back({fmt::format("{} at {} uses {} of {} PCIe lanes", gpu.name, gpu.pci_bus_id,
                                    gpu.pcie_width, gpu.pcie_max_width),
                        "use another slot, or seat the card again"});
}

}  // namespace

Machine look_at_machine(const std::vector<std::filesystem::path>& library_folders,
                        CudaModuleState module) {
  const int cuda = module.runtime_version / 1000;
  return {.files = look_for_nvidia(),
          .driver = ask_cuda_driver(),
          .devices = visible_gpus(),
          .libraries = cuda_libraries(library_folders, cuda),
          .module = std::move(module),
          .resources = resources_of(),
          .network = look_at_network(),
          .selection = std::getenv("CUDA_VISIBLE_DEVICES")};
}

Diagnosis diagnose(const Machine& m) {
  Diagnosis out;
  if (!m.module.worker_problem.empty())
    out.problems.push_back({"hgtrain-worker does not start: " + m.module.worker_problem,
                            "scripts/setup installs the libraries it needs"});
  GpuFinding gpus = gpu_state(m);
  out.gpus = gpus.state;
  if (!gpus.finding.message.empty()) out.problems.push_back(std::move(gpus.finding));
  const auto& ports = m.network.infiniband;
  const bool infiniband = std::any_of(ports.begin(), ports.end(),
                                      [](const auto& port) { return port.state == "ACTIVE"; });
  advise_on_limits(m.resources, infiniband, out.advice);
  advise_on_gpus(m.devices.gpus, out.advice);
  return out;
}

}  // namespace hgt
