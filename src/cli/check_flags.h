#pragma once

#include <cstdint>

#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// How many bytes of this machine's memory are free, at most the limit of this process's control
/// group; 0 if that is not known.
std::int64_t free_memory();

/// Error(kConfig) unless min <= value <= max.
void check_range(const char* flag, std::int64_t value, std::int64_t min, std::int64_t max,
                 const char* hint = "");

/// Error(kDevice) if `flag` makes a command take more bytes than are free of this machine's memory,
/// if that is known.
void check_memory(const char* flag, std::int64_t bytes);
/// The same of what a GPU has.
void check_memory(const char* flag, std::int64_t bytes, const VisibleGpu& gpu);

}  // namespace hgt
