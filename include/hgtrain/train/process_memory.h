#pragma once

#include <cstdint>

#include "hgtrain/device/stream.h"

namespace hgt {

/// Memory in use, now and at its highest.
struct ProcessMemory {
  std::int64_t bytes = 0;
  std::int64_t peak_bytes = 0;
};

/// Resident host memory of this process, from /proc/self/status.
ProcessMemory process_memory();
/// From here on the peak is that of what follows; stays as it is where the kernel lacks clear_refs.
void restart_peak_memory();

/// That of the stream's device: of this process on the CPU; on a CUDA device what all processes
/// have there now, at its highest too.
ProcessMemory memory_in_use(const Stream& stream);

}  // namespace hgt
