#pragma once

#include <cstdint>
#include <string>

namespace hgt {

/// Bytes of memory of a GPU named by its kind ("h100", "RTX 4090") or by its memory ("80GB",
/// "24GiB"). Error(kConfig) names the kinds it knows.
std::int64_t gpu_memory(const std::string& gpu);

}  // namespace hgt
