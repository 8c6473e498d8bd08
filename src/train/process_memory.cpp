#include "hgtrain/train/process_memory.h"

#include <algorithm>
#include <fstream>
#include <malloc.h>
#include <string>

namespace hgt {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string name;
  while (status >> name) {
    std::int64_t kib = 0;
    if (name == "VmRSS:" && status >> kib) memory.bytes = kib * 1024;
    if (name == "VmHWM:" && status >> kib) memory.peak_bytes = kib * 1024;
    std::getline(status, name);
  }
  // The kernel counts the two at different moments.
  memory.peak_bytes = std::max(memory.peak_bytes, memory.bytes);
  return memory;
}

void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

void restart_peak_memory() {
  return_freed_memory();  // otherwise freed memory would count in the new peak
  std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM alone, proc(5)
}

ProcessMemory memory_in_use(const Stream& stream) {
  if (stream.device().is_cpu()) return process_memory();
  const CudaQueue::Memory memory = stream.queue().memory();
  const std::int64_t used = memory.total_bytes - memory.free_bytes;
  return {used, used};
}

}  // namespace hgt
