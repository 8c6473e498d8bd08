#pragma once

#include <cstdint>
#include <string>

namespace hgt {

/// A GPU that need not be there.
struct KnownGpu {
  std::int64_t bytes = 0;      ///< of memory, as CUDA reports it: less than the datasheet says
  int compute_capability = 0;  ///< 90 is 9.0; 0: not known
};

/// That of a kind ("h100", "RTX 4090") or of so much memory ("80GB", "24GiB", "24576MiB").
/// Error(kConfig) names the kinds it knows.
KnownGpu known_gpu(const std::string& gpu);

}  // namespace hgt
