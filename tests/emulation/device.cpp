// The emulated device behind the module's tables: one device, whose streams do at once what they
// are given.

#include <cstring>
#include <new>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_device.h"
#include "hgtrain/device/cuda_stream_state.h"

#include "device_memory.h"
#include "device_state.h"

using hgt::emulation::device_state;

struct CUevent_st {
  double clock_us;
  bool recorded, waited_for;
};

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  *out = {"emulation", 1};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* out) {
  *out = device_state.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  if (device_state.capturing) return cudaErrorStreamCaptureUnsupported;
  if (device_state.full) return cudaErrorMemoryAllocation;
  *out = hgt::emulation::allocate(bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  hgt::emulation::release(memory);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  std::memset(to, byte, bytes);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* out) {
  *out = new CUevent_st{};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (device_state.capturing) return cudaErrorStreamCaptureUnsupported;
  *event = {device_state.clock_us, true, false};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  event->waited_for = true;
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->recorded || !end->recorded || !end->waited_for) return cudaErrorNotReady;
  *ms = static_cast<float>((end->clock_us - begin->clock_us) / 1000);
  return cudaSuccess;
}

namespace hgt {

/// Each op's temporaries are of exactly the size it asked for, and new: what an op reads of them it
/// has written.
void* CudaStreamState::at_least(std::size_t bytes) {
  scratch_memory = UniqueHandle<void*, cudaFree>(emulation::allocate(bytes));
  return scratch_memory.get();
}

void CudaStreamState::reserve(std::size_t) {}

struct CudaEventState {};

namespace {

CudaResult probe(CudaProbe* out) {
  *out = {};
  out->runtime_version = out->driver_version = 13000;
  out->device_count = 1;
  return nullptr;
}

CudaResult properties(int, CudaDeviceProperties* out) {
  *out = {"emulation", "GPU-00000000-0000-0000-0000-000000000000", "0000:00:00.0", 7, 5, 1, 0, 0};
  out->memory_bytes = std::uint64_t{1} << 30;
  return nullptr;
}

CudaResult memory_info(int, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  *free_bytes = *total_bytes = std::uint64_t{1} << 30;
  return nullptr;
}

CudaResult allocate(int, std::size_t bytes, void** out) {
  return guarded([&] { *out = std::memset(emulation::allocate(bytes), 0, bytes); });
}

CudaResult release(int, void* memory) {
  return guarded([&] { emulation::release(memory); });
}

CudaResult allocate_pinned(std::size_t bytes, void** out) {
  return guarded([&] { *out = ::operator new(bytes); });
}

CudaResult release_pinned(void* memory) {
  ::operator delete(memory);
  return nullptr;
}

CudaResult create_stream(int device, CudaStreamState** out) {
  return guarded([&] {
    *out = new CudaStreamState;
    (*out)->device = device;
  });
}

CudaResult destroy_stream(CudaStreamState* stream) {
  delete stream;
  return nullptr;
}

CudaResult create_event(int, CudaEventState** out) {
  return guarded([&] { *out = new CudaEventState; });
}

CudaResult destroy_event(CudaEventState* event) {
  delete event;
  return nullptr;
}

CudaResult query_event(CudaEventState*, bool* done) {
  *done = true;
  return nullptr;
}

CudaResult on_device(const void* memory, bool* out) {
  *out = emulation::is_device_memory(memory);
  return nullptr;
}

CudaResult copy(void* to, const void* from, std::size_t bytes, CudaStreamState*) {
  std::memcpy(to, from, bytes);
  return nullptr;
}

CudaResult fill_bytes(void* to, int byte, std::size_t bytes, CudaStreamState*) {
  std::memset(to, byte, bytes);
  return nullptr;
}

}  // namespace

const CudaDeviceTable* cuda_device_table() {
  static constexpr CudaDeviceTable kTable = {
      .probe = probe,
      .properties = properties,
      .memory_info = memory_info,
      .allocate = allocate,
      .release = release,
      .allocate_pinned = allocate_pinned,
      .release_pinned = release_pinned,
      .create_stream = create_stream,
      .destroy_stream = destroy_stream,
      .synchronize_stream = [](CudaStreamState*) -> CudaResult { return nullptr; },
      .create_event = create_event,
      .destroy_event = destroy_event,
      .record_event = [](CudaEventState*, CudaStreamState*) -> CudaResult { return nullptr; },
      .wait_event = [](CudaStreamState*, CudaEventState*) -> CudaResult { return nullptr; },
      .query_event = query_event,
      .on_device = on_device,
      .copy = copy,
      .fill_bytes = fill_bytes,
  };
  return &kTable;
}

}  // namespace hgt
