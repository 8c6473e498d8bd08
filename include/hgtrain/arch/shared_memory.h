#pragma once

#include <cstdint>

namespace hgt {

struct Config;

/// The memory through which a worker communicates with the others of its groups, on the CPU of one
/// machine, in bytes.
struct SharedMemory {
  std::int64_t mapped = 0;  ///< how much of it the worker uses
  /// The worker's share, if what a group uses is divided among its workers.
  std::int64_t share = 0;
};

/// The shared memory of a worker of a pipeline stage: what the messages of training steps fill.
SharedMemory shared_memory(const Config& config, int stage);

}  // namespace hgt
