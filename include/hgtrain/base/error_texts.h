#pragma once

#include <string_view>

namespace hgt {

// How some texts of an Error begin. Code that must know such an error looks for them, because an
// Error crosses the border of the CUDA module, and that of a process, as its texts alone.

/// The message of an error: a GPU has less free memory than it was asked for.
inline constexpr std::string_view kOutOfGpuMemory = "out of memory on ";

/// The hint of an error: a number is not finite, most likely because the learning rate is too high.
inline constexpr std::string_view kLowerRate = "lower the learning rate";

}  // namespace hgt
