#include "hgtrain/device/upload.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "hgtrain/device/cuda_queue.h"

namespace hgt {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{16} << 20;

void* allocate_pinned(const CudaQueue& queue, std::size_t bytes) {
  void* memory = nullptr;
  check(queue.module().device().allocate_pinned(bytes, &memory));
  return memory;
}

struct Chunk {
  Chunk(const CudaQueue& queue, std::size_t bytes)
      : memory(allocate_pinned(queue, bytes), queue.module().device().release_pinned),
        left(queue) {}
  std::unique_ptr<void, CudaResult (*)(void*)> memory;
  CudaEvent left;  ///< the device has copied it
};

void wait_for(const CudaEvent& event) {
  constexpr std::chrono::microseconds kPollInterval{20};
  while (!event.done()) std::this_thread::sleep_for(kPollInterval);
}

}  // namespace

void upload(void* to, const void* from, std::size_t bytes, Stream stream) {
  if (stream.device().is_cpu() || bytes == 0) return stream.copy(to, from, bytes);
  const CudaQueue& queue = stream.queue();
  const std::size_t chunk_bytes = std::min(bytes, kChunkBytes);
  std::array chunks{Chunk(queue, chunk_bytes), Chunk(queue, chunk_bytes)};
  for (std::size_t at = 0, turn = 0; at < bytes; at += chunk_bytes, turn = 1 - turn) {
    Chunk& chunk = chunks[turn];
    wait_for(chunk.left);
    const std::size_t count = std::min(chunk_bytes, bytes - at);
    std::memcpy(chunk.memory.get(), static_cast<const std::byte*>(from) + at, count);
    queue.copy(static_cast<std::byte*>(to) + at, chunk.memory.get(), count);
    chunk.left.record(queue);
  }
  queue.synchronize();
}

}  // namespace hgt
