#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// Asks NVML, opened as `library`. Nullopt if there is no such library.
std::optional<GpuList> gpus_from_nvml(const std::string& library,
                                      const std::vector<std::string>& wanted_migs);
/// The GPUs that /proc/driver/nvidia/gpus and /dev below `root` show.
GpuList gpus_from_files(const std::string& root);

/// The part of the list that CUDA_VISIBLE_DEVICES = `selection` leaves (nullptr: all of it).
std::vector<VisibleGpu> select_gpus(const GpuList& list, const char* selection);
/// The entries of a comma-separated list, without blanks around them.
std::vector<std::string> selection_entries(const char* selection);

}  // namespace hgt
