#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

/// A GPU as the driver names it. What is not known is "" or 0.
struct VisibleGpu {
  std::string uuid;  ///< "GPU-..." or, of a part of one, "MIG-..."
  std::string name;
  std::int64_t memory_bytes = 0;
};

struct VisibleDevices {
  std::vector<VisibleGpu> gpus;  ///< those a program started from here can use, in its order
  std::string found;             ///< what was found, in words, for errors and reports
};

/// The GPUs of this machine, as far as CUDA_VISIBLE_DEVICES lets a program see them: a list of
/// indices, UUIDs (a unique beginning will do) or MIG ids, cut at the first that is none, as CUDA
/// does it. Needs no CUDA: the driver's library (libnvidia-ml.so.1) is asked where it is there,
/// else /proc/driver/nvidia/gpus, else the device files are counted. Never throws for want of a
/// GPU.
VisibleDevices visible_gpus();

/// Error(kDevice), saying what was found and what to type instead, unless there are `wanted` GPUs.
void require_gpus(int wanted, const VisibleDevices& devices);

}  // namespace hgt
