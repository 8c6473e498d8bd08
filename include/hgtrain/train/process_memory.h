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
/// Returns freed memory to the system, because glibc keeps tens of megabytes that other threads do
/// not use.
void return_freed_memory();
/// Resets the peak, which from now on covers only what follows. Does nothing if the kernel lacks
/// clear_refs.
void restart_peak_memory();

/// The memory in use on the stream's device. On the CPU it is that of this process. On a CUDA
/// device it is what all processes use there now, for `peak_bytes` too.
ProcessMemory memory_in_use(const Stream& stream);

}  // namespace hgt
