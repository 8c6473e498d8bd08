#pragma once

#include <cstddef>
#include <cstdint>

namespace hgt {

// What hgtrain_cuda.so offers, as plain C: no CUDA header, class or exception crosses this
// boundary. Worker code does not call the tables itself but through CudaModule and the wrappers in
// device, ops and comm.

/// Why a call failed: the parts of an Error, as plain C; `check` makes an Error of them again.
struct CudaFailure {
  int kind;  ///< an ErrorKind
  char message[1024];
  char hint[512];
  char context[1024];  ///< lines of Error::context, innermost first
};

/// Null if the call succeeded; else this thread's failure, valid until its next call of the
/// module.
using CudaResult = const CudaFailure*;

/// A stream and the device it belongs to. Every function that takes one makes that device current.
struct CudaStreamState;
struct CudaEventState;
struct CudaGraphState;

/// What the CUDA runtime reports before any device is touched.
struct CudaProbe {
  int status;  ///< cudaError_t of cudaGetDeviceCount
  char status_text[256];
  int runtime_version;  ///< of the toolkit the module was built with: 13000 is 13.0
  int driver_version;   ///< highest CUDA the driver supports; 0 without a driver
  int device_count;     ///< 0 if status is not 0
  int nccl_version;     ///< 22809 is 2.28.9
  std::uint64_t cublaslt_version;
};

struct CudaDeviceProperties {
  char name[256];
  char uuid[48];  ///< "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", as nvidia-smi prints it
  char pci_bus_id[16];
  int major;  ///< compute capability 9.0: major 9, minor 0
  int minor;
  int multiprocessors;
  std::uint64_t memory_bytes;
  std::uint64_t l2_bytes;
};

/// Devices, memory, streams and events. Device numbers count the visible devices from 0.
struct CudaDeviceTable {
  /// Does not fail if there is no driver or device: the probe says what there is.
  CudaResult (*probe)(CudaProbe* out);
  CudaResult (*properties)(int device, CudaDeviceProperties* out);
  CudaResult (*memory_info)(int device, std::uint64_t* free_bytes, std::uint64_t* total_bytes);

  /// Allocates device memory, aligned to 256 bytes, zeroed. An out-of-memory error says how much
  /// was requested and how much is free.
  CudaResult (*allocate)(int device, std::size_t bytes, void** out);
  CudaResult (*release)(int device, void* memory);
  /// Page-locked host memory: copies from and to it do not block.
  CudaResult (*allocate_pinned)(std::size_t bytes, void** out);
  CudaResult (*release_pinned)(void* memory);

  /// Streams do not wait for the legacy default stream, which hgtrain never uses.
  CudaResult (*create_stream)(int device, CudaStreamState** out);
  CudaResult (*destroy_stream)(CudaStreamState* stream);
  CudaResult (*synchronize_stream)(CudaStreamState* stream);

  CudaResult (*create_event)(int device, CudaEventState** out);
  CudaResult (*destroy_event)(CudaEventState* event);
  CudaResult (*record_event)(CudaEventState* event, CudaStreamState* stream);
  CudaResult (*wait_event)(CudaStreamState* stream, CudaEventState* event);
  CudaResult (*query_event)(CudaEventState* event, bool* done);
  /// The time between two events that have been passed.
  CudaResult (*elapsed_ms)(CudaEventState* begin, CudaEventState* end, float* out);

  /// Work that the stream gets between begin and end is not run but kept in a graph, null if it
  /// gets none. A failure ends the capture as well.
  CudaResult (*begin_capture)(CudaStreamState* stream);
  CudaResult (*end_capture)(CudaStreamState* stream, CudaGraphState** out);
  /// Makes the graph ready for launches. May wait for all work of the device.
  CudaResult (*prepare_graph)(CudaGraphState* graph, CudaStreamState* stream);
  CudaResult (*launch_graph)(CudaGraphState* graph, CudaStreamState* stream);
  CudaResult (*destroy_graph)(CudaGraphState* graph);

  /// Ranges of the calling thread that profilers show (NVTX).
  void (*push_range)(const char* name);
  void (*pop_range)();

  /// Whether it is memory of a device; false for all host memory.
  CudaResult (*on_device)(const void* memory, bool* out);
  /// Copies between any two places, in stream order; blocks only if host memory is not pinned.
  CudaResult (*copy)(void* to, const void* from, std::size_t bytes, CudaStreamState* stream);
  /// Likewise for rows of `row_bytes` bytes that lie `to_pitch` and `from_pitch` bytes apart.
  CudaResult (*copy_rows)(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t row_bytes, std::size_t rows, CudaStreamState* stream);
  CudaResult (*fill_bytes)(void* to, int byte, std::size_t bytes, CudaStreamState* stream);
};

struct CudaOpsTable;                         // hgtrain/ops/cuda_ops_table.h
struct CudaCommTable;                        // src/comm/cuda_comm_table.h
const CudaDeviceTable* cuda_device_table();  ///< defined in the module
const CudaCommTable* cuda_comm_table();      ///< defined in the module: NCCL

/// What the module's one exported function returns. `version` must stay the first member.
struct CudaTables {
  std::uint32_t version;  ///< kCudaTableVersion, which the build makes of these headers
  const char* build;      ///< for reports: "0.1.0, CUDA 13.0, sm_75 sm_80 ..."
  const CudaDeviceTable* device;
  const CudaOpsTable* ops;
  const CudaCommTable* comm;
};

inline constexpr const char* kCudaTablesSymbol = "hgtrain_cuda_tables";
using CudaTablesFunction = const CudaTables* (*)();

}  // namespace hgt
