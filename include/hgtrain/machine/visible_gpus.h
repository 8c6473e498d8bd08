#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hgtrain/machine/driver_limit.h"

namespace hgt {

/// A GPU as the driver names it. Unknown values are "", 0 or -1.
struct VisibleGpu {
  std::string uuid;  ///< "GPU-...", or "MIG-..." for a part of a GPU
  std::string name;
  std::int64_t memory_bytes = 0;
  int compute_capability = 0;  ///< 90 is 9.0, sm_90
  std::string pci_bus_id;      ///< as sysfs names it: "0000:65:00.0"
  int pcie_generation = 0;     ///< highest of GPU and slot; idle links run at a lower one
  int pcie_width = 0;          ///< lanes in use
  int pcie_max_width = 0;
  int nvlinks = 0;  ///< how many are up
  int numa_node = -1;
  /// The connection to each other GPU, by its UUID, as `nvidia-smi topo -m` names it: "NV"
  /// (NVLink), "PIX" (one PCIe switch), "PXB" (several), "PHB" (the CPU's host bridge), "NODE",
  /// "SYS" (between NUMA nodes).
  std::map<std::string, std::string> links;
};

/// Whether GPUs of this compute capability (90 is 9.0) compute in bf16; true if it is not known
/// (0).
constexpr bool has_bf16(int compute_capability) {
  return compute_capability == 0 || compute_capability >= 80;
}

/// All GPUs of the machine, in the driver's order (by PCI bus), or why there are none.
struct GpuList {
  std::vector<VisibleGpu> gpus;
  std::vector<VisibleGpu> migs;  ///< MIG devices that CUDA_VISIBLE_DEVICES names
  std::string problem;           ///< "" if the driver has answered
  std::string driver_version;    ///< "580.65.06"
  int nvml_result = -1;          ///< of nvmlInit; -1: there is no NVML
};

struct VisibleDevices {
  std::vector<VisibleGpu> gpus;  ///< usable by a program started from here, in its order
  std::string found;             ///< what was found, in words, for errors and reports
  GpuList machine;
};

/// The GPUs of this machine that CUDA_VISIBLE_DEVICES lets a program see. The variable is a list of
/// indices, UUIDs (a unique beginning suffices) or MIG ids; like CUDA, this ignores everything from
/// the first invalid entry on. Needs no CUDA: it asks the driver's library (libnvidia-ml.so.1) or,
/// if there is none, reads /proc/driver/nvidia/gpus or counts the device files. Does not throw if
/// there is no GPU. Error(kDevice) if the driver does not answer within `limit`.
VisibleDevices visible_gpus(std::chrono::milliseconds limit = kDriverLimit);

/// Error(kDevice) if there are fewer than `wanted` GPUs; it says what was found and what to type.
void require_gpus(int wanted, const VisibleDevices& devices);
/// The same for one GPU and a command with --device.
void require_gpu(const VisibleDevices& devices);

}  // namespace hgt
