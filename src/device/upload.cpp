#include "hgtrain/device/upload.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

struct Chunk {
  Chunk(const CudaQueue& queue, std::size_t bytes)
      : memory(allocate_pinned(queue.module(), bytes)), left(queue) {}
  PinnedMemory memory;
  CudaEvent left;  ///< the device has copied it
};

}  // namespace

void upload(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (stream.device().is_cpu() || bytes == 0) return stream.copy(to, from, bytes);
  const CudaQueue& queue = stream.queue();
  const std::size_t chunk_bytes = std::min(bytes, kChunkBytes);
  std::array chunks{Chunk(queue, chunk_bytes), Chunk(queue, chunk_bytes)};
  for (std::size_t at = 0, turn = 0; at < bytes; at += chunk_bytes, turn = 1 - turn) {
    Chunk& chunk = chunks[turn];
    chunk.left.wait();
    const std::size_t count = std::min(chunk_bytes, bytes - at);
    std::memcpy(chunk.memory.get(), static_cast<const std::byte*>(from) + at, count);
    queue.copy(static_cast<std::byte*>(to) + at, chunk.memory.get(), count);
    chunk.left.record(queue);
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
