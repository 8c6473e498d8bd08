#pragma once

// For sources of the CUDA module only: what stands behind the opaque stream of the tables.

#include <cuda_runtime_api.h>
#include <memory>
#include <vector>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/unique_handle.h"

namespace hgt {

struct GemmPlans;   // of ops
struct CudnnPlans;  // of ops

struct CudaStreamState {
  int device = 0;
  UniqueHandle<cudaStream_t, cudaStreamDestroy> stream;
  std::vector<UniqueHandle<void*, cudaFree>> scratch_memory;  ///< the last is in use
  std::size_t scratch_bytes = 0;
  std::shared_ptr<GemmPlans> gemm_plans;    ///< what matrix products keep; made by the first one
  std::shared_ptr<CudnnPlans> cudnn_plans;  ///< attention's; null: it does not run over cuDNN
  bool fixed_products = false;              ///< the ways of products are not timed

  /// Makes the device current for this thread (a thread starts on device 0) and gives the stream.
  cudaStream_t use() const {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    return stream.get();
  }

  /// Whether what it is given is kept in a graph instead of run: a wait or an allocation would
  /// fail.
  bool is_captured() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    HGT_CUDA_CHECK(cudaStreamIsCapturing(use(), &status));
    return status != cudaStreamCaptureStatusNone;
  }

  /// Device memory for temporaries of the op being queued: the stream's next op may overwrite it.
  /// Grows to the largest request, so that a steady state allocates nothing; what it was before
  /// stays too, for what was queued or captured with it.
  template <class T>
  T* scratch(std::int64_t count) {
    return static_cast<T*>(at_least(static_cast<std::size_t>(count) * sizeof(T)));
  }

  void* at_least(std::size_t bytes);  ///< scratch's memory
  void reserve(std::size_t bytes);    ///< requests up to this size will not make it grow
};

}  // namespace hgt
