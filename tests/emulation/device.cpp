// The emulated device behind the module's tables: one device, whose streams do at once what they
// are given, unless it is captured or a collective.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"

#include "capture.h"
#include "device_memory.h"
#include "device_state.h"
#include "order.h"

using hgt::emulation::device_state;

struct CUevent_st {
  double clock_us;
  bool recorded, waited_for;
};

constexpr int kMultiprocessors = 2;

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int) {
  *out = {"emulation", kMultiprocessors};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  *out = stream && stream->captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

/// What a call returns that a capture forbids.
static cudaError_t in_capture(const char* call) {
  try {
    hgt::emulation::forbid_in_capture(call);
    return cudaSuccess;
  } catch (const hgt::Error&) {
    return cudaErrorStreamCaptureUnsupported;
  }
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  if (const cudaError_t error = in_capture("cudaMalloc")) return error;
  if (device_state.full) return cudaErrorMemoryAllocation;
  *out = hgt::emulation::allocate(bytes);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  if (const cudaError_t error = in_capture("cudaFree")) return error;
  const std::size_t bytes = hgt::emulation::size_of_allocation(memory);
  hgt::emulation::wait_for_uses(memory, bytes);
  hgt::emulation::forget(memory, bytes);
  hgt::emulation::release(memory);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream) {
  hgt::emulation::submit(stream, [=] { std::memset(to, byte, bytes); });
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
  if (const cudaError_t error = in_capture("cudaEventRecord")) return error;
  if (!hgt::emulation::are_over_of_this_thread())
    throw hgt::Error(hgt::ErrorKind::kInternal,
                     "emulation: a product is timed while a collective is under way");
  *event = {device_state.clock_us, true, false};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = in_capture("cudaEventSynchronize")) return error;
  event->waited_for = true;
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->recorded || !end->recorded || !end->waited_for) return cudaErrorNotReady;
  *ms = static_cast<float>((end->clock_us - begin->clock_us) / 1000);
  return cudaSuccess;
}

namespace hgt {

using emulation::forbid_in_capture;

/// Each op's temporaries are of exactly the size it asked for, and new: what an op reads of them it
/// has written. A device has one memory for them, which cannot grow in a capture.
void* CudaStreamState::ensure_scratch(std::size_t bytes) {
  if (bytes > scratch_bytes) forbid_in_capture("cudaMalloc");
  scratch_bytes = std::max(scratch_bytes, bytes);
  void* const memory = emulation::allocate(bytes);
  if (stream && stream.get()->captured) {
    stream.get()->captured->scratch.emplace_back(memory, cudaFree);
  } else {
    scratch_memory.clear();
    scratch_memory.emplace_back(memory);
  }
  return memory;
}

void CudaStreamState::reserve(std::size_t bytes) {
  if (bytes > scratch_bytes) forbid_in_capture("cudaMalloc");
  scratch_bytes = std::max(scratch_bytes, bytes);
}

struct CudaEventState : emulation::Event {
  double clock_us = 0;    ///< of the device when it was recorded
  bool was_asked = true;  ///< since it was recorded
};
struct CudaGraphState : emulation::Graph {
  bool is_ready = false;
};

namespace {

CudaResult probe(CudaProbe* out) {
  *out = {};
  out->runtime_version = out->driver_version = 13000;
  const char* const devices = std::getenv("HGTRAIN_EMULATION_DEVICES");
  out->device_count = devices ? std::atoi(devices) : 1;
  return nullptr;
}

CudaResult properties(int, CudaDeviceProperties* out) {
  *out = {"emulation", "GPU-00000000-0000-0000-0000-000000000000", "0000:00:00.0", 7, 5, 1, 0, 0};
  out->memory_bytes = std::uint64_t{1} << 30;
  return nullptr;
}

constexpr std::size_t kMemory = std::size_t{4} << 30;

/// HGTRAIN_EMULATION_MEMORY: bytes after which the device is full, as if others had taken the rest
/// since it was asked.
class Taken {
 public:
  std::size_t free() {
    const std::lock_guard lock(mutex_);
    return full_ ? limit_ - total_ : kMemory;
  }
  /// Zeros.
  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    full_ |= total_ + bytes > limit_;
    if (total_ + bytes > limit_)
      throw Error(ErrorKind::kDevice, "out of memory on the emulated device");
    void* const memory = emulation::allocate(bytes, 0);
    sizes_[memory] = bytes;
    total_ += bytes;
    return memory;
  }
  void give_back(void* memory) {
    const std::lock_guard lock(mutex_);
    total_ -= sizes_.extract(memory).mapped();
  }

 private:
  static std::size_t limit_of(const char* given) {
    return given == nullptr ? SIZE_MAX : std::strtoull(given, nullptr, 10);
  }
  std::mutex mutex_;
  std::map<void*, std::size_t> sizes_;
  const std::size_t limit_ = limit_of(std::getenv("HGTRAIN_EMULATION_MEMORY"));
  std::size_t total_ = 0;
  bool full_ = false;
};
Taken& taken() {
  static Taken all;
  return all;
}

CudaResult memory_info(int, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  *free_bytes = taken().free();
  *total_bytes = kMemory;
  return nullptr;
}

CudaResult allocate(int, std::size_t bytes, void** out) {
  return guarded([&] {
    forbid_in_capture("cudaMalloc");
    *out = taken().take(bytes);
  });
}

CudaResult release(int, void* memory) {
  return guarded([&] {
    forbid_in_capture("cudaFree");
    taken().give_back(memory);
    (void)cudaFree(memory);
  });
}

CudaResult allocate_pinned(std::size_t bytes, void** out) {
  return guarded([&] {
    forbid_in_capture("cudaHostAlloc");
    *out = emulation::allocate_pinned(bytes);
  });
}

CudaResult release_pinned(void* memory) {
  return guarded([&] {
    forbid_in_capture("cudaFreeHost");
    emulation::forget(memory, emulation::size_of_pinned(memory));
    emulation::release_pinned(memory);
  });
}

int next_id() {
  static std::atomic<int> count = 0;
  return ++count;
}

CudaResult create_stream(int device, CudaStreamState** out) {
  return guarded([&] {
    auto state = std::make_unique<CudaStreamState>();
    state->device = device;
    state->multiprocessors = kMultiprocessors;
    state->stream = UniqueHandle<cudaStream_t, cudaStreamDestroy>(new CUstream_st{next_id(), {}});
    *out = state.release();
  });
}

CudaResult destroy_stream(CudaStreamState* stream) {
  delete stream;
  return nullptr;
}

CudaResult create_event(int, CudaEventState** out) {
  return guarded([&] { *out = new CudaEventState{{next_id()}}; });
}

CudaResult destroy_event(CudaEventState* event) {
  delete event;
  return nullptr;
}

CudaResult synchronize_stream(CudaStreamState* stream) {
  return guarded([&] {
    forbid_in_capture("cudaStreamSynchronize");
    emulation::forbid_of_captured(stream->use(), "cudaStreamSynchronize");
    emulation::wait_until_over(stream->use()->pending);
    emulation::host_waits_for(stream->use()->clock);
  });
}

CudaResult record_event(CudaEventState* event, CudaStreamState* stream) {
  return guarded([&] {
    emulation::record(*event, stream->use());
    event->clock_us = device_state.clock_us;
    event->was_asked = false;
  });
}

CudaResult wait_event(CudaStreamState* stream, CudaEventState* event) {
  return guarded([&] { emulation::wait(stream->use(), *event); });
}

/// The device is busy: an event is not done when it is asked the first time, unless the host knows
/// it from another wait.
CudaResult query_event(CudaEventState* event, bool* done) {
  return guarded([&] {
    forbid_in_capture("cudaEventQuery");
    *done = emulation::has_host_waited_for(event->clock) ||
            (std::exchange(event->was_asked, true) && emulation::are_over(event->pending));
    if (*done) emulation::host_waits_for(event->clock);
  });
}

CudaResult elapsed_ms(CudaEventState* begin, CudaEventState* end, float* out) {
  return guarded([&] {
    for (const CudaEventState* event : {begin, end})
      if (!event->recorded || !emulation::has_host_waited_for(event->clock))
        throw Error(ErrorKind::kDevice, "cudaEventElapsedTime: device not ready");
    *out = static_cast<float>((end->clock_us - begin->clock_us) / 1000);
  });
}

CudaResult begin_capture(CudaStreamState* stream) {
  return guarded([&] {
    if (stream->use()->captured) throw Error(ErrorKind::kDevice, "a capture is under way");
    stream->use()->captured = new CudaGraphState;
    emulation::begin_capture(*stream->use()->captured);
  });
}

CudaResult end_capture(CudaStreamState* stream, CudaGraphState** out) {
  return guarded([&] {
    std::unique_ptr<CudaGraphState> graph(
        static_cast<CudaGraphState*>(std::exchange(stream->use()->captured, nullptr)));
    if (!graph) throw Error(ErrorKind::kDevice, "no capture is under way");
    emulation::end_capture(*graph);
    *out = !graph->work.empty() ? graph.release() : nullptr;
  });
}

/// Waits for all work of the device, as cudaGraphInstantiate may.
CudaResult prepare_graph(CudaGraphState* graph, CudaStreamState*) {
  return guarded([&] {
    forbid_in_capture("cudaGraphInstantiate");
    emulation::wait_until_over_of_this_thread();
    graph->is_ready = true;
  });
}

CudaResult launch_graph(CudaGraphState* graph, CudaStreamState* stream) {
  return guarded([&] {
    if (!graph->is_ready) throw Error(ErrorKind::kDevice, "cudaGraphLaunch: no executable graph");
    emulation::launch(stream->use(), *graph);
  });
}

CudaResult destroy_graph(CudaGraphState* graph) {
  delete graph;
  return nullptr;
}

CudaResult on_device(const void* memory, bool* out) {
  *out = emulation::is_device_memory(memory);
  return nullptr;
}

CudaResult copy(void* to, const void* from, std::size_t bytes, CudaStreamState* stream) {
  return guarded([&] { emulation::submit_copy(stream->use(), to, from, bytes); });
}

CudaResult copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                     std::size_t row_bytes, std::size_t rows, CudaStreamState* stream) {
  for (std::size_t i = 0; i < rows; ++i)
    if (const CudaResult failure =
            copy(static_cast<char*>(to) + i * to_pitch,
                 static_cast<const char*>(from) + i * from_pitch, row_bytes, stream))
      return failure;
  return nullptr;
}

CudaResult fill_bytes(void* to, int byte, std::size_t bytes, CudaStreamState* stream) {
  return guarded([&] {
    emulation::note(stream->use(), {{to, bytes, true}});
    emulation::submit(stream->use(), [=] { std::memset(to, byte, bytes); });
  });
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
      .synchronize_stream = synchronize_stream,
      .create_event = create_event,
      .destroy_event = destroy_event,
      .record_event = record_event,
      .wait_event = wait_event,
      .query_event = query_event,
      .elapsed_ms = elapsed_ms,
      .begin_capture = begin_capture,
      .end_capture = end_capture,
      .prepare_graph = prepare_graph,
      .launch_graph = launch_graph,
      .destroy_graph = destroy_graph,
      .push_range = [](const char* name) { std::fprintf(stderr, "range %s\n", name); },
      .pop_range = [] {},
      .on_device = on_device,
      .copy = copy,
      .copy_rows = copy_rows,
      .fill_bytes = fill_bytes,
  };
  return &kTable;
}

}  // namespace hgt
