#pragma once

#include <cstdint>
#include <string>

namespace hgt {

/// A kind of GPU, which this machine need not have.
struct KnownGpu {
  std::int64_t bytes = 0;      ///< of memory, as CUDA reports it: less than the datasheet says
  int compute_capability = 0;  ///< 90 is 9.0; 0: not known
};

/// The GPU of that kind ("h100", "RTX 4090"), or one with that much memory ("80GB", "24GiB",
/// "24576MiB"). The message of Error(kConfig) lists the known kinds.
KnownGpu known_gpu(const std::string& gpu);

}  // namespace hgt
