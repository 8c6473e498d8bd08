#pragma once

// What the kernels' launchers use of CUDA's runtime, for the emulation: every call has happened
// when it returns, unless its stream is being captured (order.h).

#include <cstddef>
#include <cstdint>
#include <functional>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
};
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };

struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
};

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaSuccess ? "no error" : "an error";
}
inline const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaSuccess ? "cudaSuccess" : "cudaError";
}
inline cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out);

cudaError_t cudaMalloc(void** out, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t stream);

// An event tells the time of hgtrain's emulated clock (device_state.h).
cudaError_t cudaEventCreate(cudaEvent_t* out);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);
