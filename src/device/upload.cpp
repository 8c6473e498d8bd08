#include "hgtrain/device/upload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {
namespace {

constexpr std::size_t kStagingBytes = std::size_t{16} << 20;

/// Pinned memory on the way to the device.
struct Staging {
  Staging(const CudaQueue& queue, std::size_t bytes)
      : memory(allocate_pinned(queue.module(), bytes)), copied(queue) {}
  PinnedMemory memory;
  CudaEvent copied;
};

}  // namespace

void upload(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (stream.device().is_cpu() || bytes == 0) return stream.copy(to, from, bytes);
  const CudaQueue& queue = stream.queue();
  const std::size_t most = std::min(bytes, kStagingBytes);
  std::array both{Staging(queue, most), Staging(queue, most)};
  for (std::size_t at = 0, turn = 0; at < bytes; at += most, turn = 1 - turn) {
    Staging& staging = both[turn];
    staging.copied.wait();
    const std::size_t count = std::min(most, bytes - at);
    std::memcpy(staging.memory.get(), static_cast<const std::byte*>(from) + at, count);
    queue.copy(static_cast<std::byte*>(to) + at, staging.memory.get(), count);
    staging.copied.record(queue);
  }
  queue.synchronize();
}

Buffer uploaded(Buffer host, Stream stream) {
  if (stream.device().is_cpu()) return host;
  Buffer there(host.name(), host.bytes(), stream.device());
  upload(there.data(), host.data(), static_cast<std::size_t>(host.bytes()), stream);
  return there;
}

}  // namespace hgt
