#pragma once

// For sources of the CUDA module only: what stands behind the opaque stream of the tables.

#include <cuda_runtime_api.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/unique_handle.h"

namespace hgt {

struct CudaStreamState {
  int device = 0;
  UniqueHandle<cudaStream_t, cudaStreamDestroy> stream;

  /// Makes the device current for this thread (a thread starts on device 0) and gives the stream.
  cudaStream_t use() const {
    HGT_CUDA_CHECK(cudaSetDevice(device));
    return stream.get();
  }
};

}  // namespace hgt
