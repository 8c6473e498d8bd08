#pragma once

#include <cstdint>

namespace hgt {

/// Resident memory of this process, now and at its highest.
struct ProcessMemory {
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;
};

/// Read from /proc/self/status.
ProcessMemory process_memory();

}  // namespace hgt
