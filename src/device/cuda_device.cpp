#include <cstring>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <memory>
#include <nccl.h>

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include "hgtrain/base/error_texts.h"
#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"
#include "hgtrain/device/cuda_table.h"
#include "hgtrain/device/unique_handle.h"

namespace hgt {
namespace {

void* allocate_device(int device, std::size_t bytes) {
  void* memory = nullptr;
  HGT_CUDA_CHECK(cudaSetDevice(device));
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    HGT_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    throw Error(
        ErrorKind::kDevice,
        fmt::format("{}cuda:{}: asked for {:.1f} MiB, {:.1f} of {:.1f} MiB are free",
                    kOutOfGpuMemory, device, static_cast<double>(bytes) / 1048576,
                    static_cast<double>(free) / 1048576, static_cast<double>(total) / 1048576),
        "use a smaller train_micro_batch_size_per_gpu; nvidia-smi shows who else uses the device");
  }
  HGT_CUDA_CHECK(status);
  return memory;
}

}  // namespace

void* CudaStreamState::ensure_scratch(std::size_t bytes) {
  if (bytes > scratch_bytes || scratch_memory.empty()) {
    scratch_memory.emplace_back(allocate_device(device, bytes));
    scratch_bytes = bytes;
  }
  return scratch_memory.back().get();
}

void CudaStreamState::reserve(std::size_t bytes) {
  (void)ensure_scratch(bytes);
}

struct CudaEventState {
  int device = 0;
  UniqueHandle<cudaEvent_t, cudaEventDestroy> event;
};

namespace {

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  to[text.copy(to, N - 1)] = '\0';
}

CudaResult probe(CudaProbe* out) {
  return guarded([&] {
    *out = {};
    const cudaError_t status = cudaGetDeviceCount(&out->device_count);
    if (status != cudaSuccess) out->device_count = 0;
    (void)cudaGetLastError();
    out->status = static_cast<int>(status);
    copy_text(out->status_text, cudaGetErrorString(status));
    HGT_CUDA_CHECK(cudaRuntimeGetVersion(&out->runtime_version));
    HGT_CUDA_CHECK(cudaDriverGetVersion(&out->driver_version));
    (void)ncclGetVersion(&out->nccl_version);
    out->cublaslt_version = cublasLtGetVersion();
  });
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string out = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return out;
}

CudaResult properties(int device, CudaDeviceProperties* out) {
  return guarded([&] {
    cudaDeviceProp found{};
    HGT_CUDA_CHECK(cudaGetDeviceProperties(&found, device));
    *out = {};
    copy_text(out->name, found.name);
    copy_text(out->uuid, uuid_text(found.uuid));
    HGT_CUDA_CHECK(cudaDeviceGetPCIBusId(out->pci_bus_id, sizeof out->pci_bus_id, device));
    out->major = found.major;
    out->minor = found.minor;
    out->multiprocessors = found.multiProcessorCount;
    out->memory_bytes = found.totalGlobalMem;
    out->l2_bytes = static_cast<std::uint64_t>(found.l2CacheSize);
  });
}

CudaResult memory_info(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes) {
  return guarded([&] {
    std::size_t free = 0, total = 0;
    HGT_CUDA_CHECK(cudaSetDevice(device));
    HGT_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    *free_bytes = free;
    *total_bytes = total;
  });
}

CudaResult allocate(int device, std::size_t bytes, void** out) {
  return guarded([&] {
    UniqueHandle<void*, cudaFree> memory(allocate_device(device, bytes));
    // The host waits for this alone, not for the whole device: there, a collective may wait for a
    // peer, and CUDA forbids to wait for a device while another thread captures one of its streams.
    HGT_CUDA_CHECK(cudaMemsetAsync(memory.get(), 0, bytes, cudaStreamPerThread));
    HGT_CUDA_CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    *out = memory.release();
  });
}

CudaResult release(int device, void* memory) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    HGT_CUDA_CHECK(cudaFree(memory));
  });
}

CudaResult allocate_pinned(std::size_t bytes, void** out) {
  return guarded([&] { HGT_CUDA_CHECK(cudaHostAlloc(out, bytes, cudaHostAllocPortable)); });
}

CudaResult release_pinned(void* memory) {
  return guarded([&] { HGT_CUDA_CHECK(cudaFreeHost(memory)); });
}

CudaResult create_stream(int device, CudaStreamState** out) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    cudaStream_t stream = nullptr;
    HGT_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    UniqueHandle<cudaStream_t, cudaStreamDestroy> owned(stream);
    int multiprocessors = 0;
    HGT_CUDA_CHECK(
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    *out = new CudaStreamState{device, multiprocessors, std::move(owned), {}, 0, {}, {}};
  });
}

CudaResult destroy_stream(CudaStreamState* stream) {
  return guarded([&] {
    const std::unique_ptr<CudaStreamState> owned(stream);
    HGT_CUDA_CHECK(cudaSetDevice(stream->device));
    HGT_CUDA_CHECK(cudaStreamDestroy(owned->stream.release()));
  });
}

CudaResult synchronize_stream(CudaStreamState* stream) {
  return guarded([&] { HGT_CUDA_CHECK(cudaStreamSynchronize(stream->use())); });
}

CudaResult create_event(int device, CudaEventState** out) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    cudaEvent_t event = nullptr;
    HGT_CUDA_CHECK(cudaEventCreate(&event));
    UniqueHandle<cudaEvent_t, cudaEventDestroy> owned(event);
    *out = new CudaEventState{device, std::move(owned)};
  });
}

CudaResult destroy_event(CudaEventState* event) {
  return guarded([&] {
    const std::unique_ptr<CudaEventState> owned(event);
    HGT_CUDA_CHECK(cudaSetDevice(event->device));
    HGT_CUDA_CHECK(cudaEventDestroy(owned->event.release()));
  });
}

CudaResult record_event(CudaEventState* event, CudaStreamState* stream) {
  return guarded([&] { HGT_CUDA_CHECK(cudaEventRecord(event->event.get(), stream->use())); });
}

CudaResult wait_event(CudaStreamState* stream, CudaEventState* event) {
  return guarded(
      [&] { HGT_CUDA_CHECK(cudaStreamWaitEvent(stream->use(), event->event.get(), 0)); });
}

CudaResult query_event(CudaEventState* event, bool* done) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(event->device));
    const cudaError_t status = cudaEventQuery(event->event.get());
    if (status != cudaErrorNotReady) HGT_CUDA_CHECK(status);
    *done = status == cudaSuccess;
  });
}

CudaResult elapsed_ms(CudaEventState* begin, CudaEventState* end, float* out) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(begin->device));
    HGT_CUDA_CHECK(cudaEventElapsedTime(out, begin->event.get(), end->event.get()));
  });
}

}  // namespace

struct CudaGraphState {
  int device = 0;
  UniqueHandle<cudaGraph_t, cudaGraphDestroy> captured;
  UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy> executable;
};

namespace {

// Only this thread's calls are checked, so other threads, such as NCCL's, may continue with calls
// that must not be captured.
CudaResult begin_capture(CudaStreamState* stream) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaStreamBeginCapture(stream->use(), cudaStreamCaptureModeThreadLocal));
  });
}

CudaResult end_capture(CudaStreamState* stream, CudaGraphState** out) {
  return guarded([&] {
    cudaGraph_t raw = nullptr;
    HGT_CUDA_CHECK(cudaStreamEndCapture(stream->use(), &raw));
    UniqueHandle<cudaGraph_t, cudaGraphDestroy> graph(raw);
    std::size_t nodes = 0;
    HGT_CUDA_CHECK(cudaGraphGetNodes(graph.get(), nullptr, &nodes));
    *out = nodes == 0 ? nullptr : new CudaGraphState{stream->device, std::move(graph), {}};
  });
}

CudaResult prepare_graph(CudaGraphState* graph, CudaStreamState* stream) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaSetDevice(graph->device));
    cudaGraphExec_t raw = nullptr;
    HGT_CUDA_CHECK(cudaGraphInstantiate(&raw, graph->captured.get(), 0));
    graph->executable = UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy>(raw);
    HGT_CUDA_CHECK(cudaGraphUpload(raw, stream->use()));
    graph->captured = {};
  });
}

CudaResult launch_graph(CudaGraphState* graph, CudaStreamState* stream) {
  return guarded([&] { HGT_CUDA_CHECK(cudaGraphLaunch(graph->executable.get(), stream->use())); });
}

CudaResult destroy_graph(CudaGraphState* graph) {
  return guarded([&] {
    const std::unique_ptr<CudaGraphState> owned(graph);
    HGT_CUDA_CHECK(cudaSetDevice(owned->device));
    if (owned->executable) HGT_CUDA_CHECK(cudaGraphExecDestroy(owned->executable.release()));
  });
}

void push_range(const char* name) {
  nvtxRangePushA(name);
}

void pop_range() {
  nvtxRangePop();
}

CudaResult on_device(const void* memory, bool* out) {
  return guarded([&] {
    cudaPointerAttributes attributes{};
    HGT_CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
    *out = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  });
}

CudaResult copy(void* to, const void* from, std::size_t bytes, CudaStreamState* stream) {
  return guarded(
      [&] { HGT_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->use())); });
}

CudaResult copy_rows(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                     std::size_t row_bytes, std::size_t rows, CudaStreamState* stream) {
  return guarded([&] {
    HGT_CUDA_CHECK(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, row_bytes, rows,
                                     cudaMemcpyDefault, stream->use()));
  });
}

CudaResult fill_bytes(void* to, int byte, std::size_t bytes, CudaStreamState* stream) {
  return guarded([&] { HGT_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, stream->use())); });
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
      .push_range = push_range,
      .pop_range = pop_range,
      .on_device = on_device,
      .copy = copy,
      .copy_rows = copy_rows,
      .fill_bytes = fill_bytes,
  };
  return &kTable;
}

}  // namespace hgt
