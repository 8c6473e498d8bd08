#pragma once

#include <cstdint>

namespace hgt {

struct Config;

/// The memory through which a worker communicates with the others of its groups, on the CPU of one
/// machine, in bytes.
struct SharedMemory {
  std::int64_t mapped = 0;  ///< what it uses of it
  std::int64_t share = 0;   ///< its part, if the workers of a group share what they use
};

/// The shared memory of a worker of a pipeline stage, as far as messages of the steps fill it.
SharedMemory shared_memory(const Config& config, int stage);

}  // namespace hgt
