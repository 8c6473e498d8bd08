#pragma once

#include <cstdint>

#include "hgtrain/machine/visible_gpus.h"

namespace hgt {

/// Error(kDevice) where `flag` makes a command take more bytes than are free of this machine's
/// memory, as far as that is known.
void check_memory(const char* flag, std::int64_t bytes);
/// The same of what a GPU has.
void check_memory(const char* flag, std::int64_t bytes, const VisibleGpu& gpu);

}  // namespace hgt
