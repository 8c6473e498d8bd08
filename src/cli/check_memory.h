#pragma once

#include <cstdint>

namespace hgt {

/// Error(kDevice) where `flag` makes a command take more bytes than are free of this machine's
/// memory, as far as that is known.
void check_memory(const char* flag, std::int64_t bytes);

}  // namespace hgt
