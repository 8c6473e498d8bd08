#pragma once

#include <cstdint>

#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// Bytes of this machine's memory that are free, as far as this process's control group lets it
/// have them; 0: not known.
std::int64_t free_memory();

/// Error(kDevice) where `flag` makes a command take more bytes than are free of this machine's
/// memory, as far as that is known.
void check_memory(const char* flag, std::int64_t bytes);
/// The same of what a GPU has.
void check_memory(const char* flag, std::int64_t bytes, const VisibleGpu& gpu);

}  // namespace hgt
