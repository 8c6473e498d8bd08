#pragma once

// For sources of the CUDA module only: the definition of the tables' opaque stream.

#include <cuda_runtime_api.h>
#include <memory>
#include <vector>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/unique_handle.h"

namespace hgt {

// Of ops.
struct GemmPlans;
struct CudnnPlans;
enum class ProductTiming : int;

struct CudaStreamState {
  int device = 0, multiprocessors = 0;
  UniqueHandle<cudaStream_t, cudaStreamDestroy> stream;
  std::vector<UniqueHandle<void*, cudaFree>> scratch_memory;  ///< the last one is in use
  std::size_t scratch_bytes = 0;
  std::shared_ptr<GemmPlans> gemm_plans;    ///< state of products; the first one makes it
  std::shared_ptr<CudnnPlans> cudnn_plans;  ///< state of attention; null: cuDNN is not used
  ProductTiming product_timing{};           ///< at first kTimed

  /// Makes the device current for this thread (a thread starts on device 0) and returns the stream.
  cudaStream_t use() const {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    return stream.get();
  }

  /// Whether the stream is being captured into a graph instead of run: then a wait or an allocation
  /// would fail.
  bool is_captured() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    HGT_CUDA_CHECK(cudaStreamIsCapturing(use(), &status));
    return status != cudaStreamCaptureStatusNone;
  }

  /// Device memory for temporaries of the op being queued; the stream's next op may overwrite it.
  /// It grows to the largest request, so that a steady state allocates nothing. Outgrown memory is
  /// kept, because queued or captured work may still use it.
  template <class T>
  T* scratch(std::int64_t count) {
    return static_cast<T*>(ensure_scratch(static_cast<std::size_t>(count) * sizeof(T)));
  }

  void* ensure_scratch(std::size_t bytes);  ///< memory of scratch()
  void reserve(std::size_t bytes);          ///< later requests up to this size allocate nothing
};

}  // namespace hgt
