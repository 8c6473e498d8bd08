#pragma once

// What the kernels' launchers use of CUDA's runtime, for the emulation: every call has happened
// when it returns.

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

enum cudaError_t : int { cudaSuccess = 0 };
using cudaStream_t = struct CUstream_st*;

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t) {
  return "no error";
}
inline const char* cudaGetErrorName(cudaError_t) {
  return "cudaSuccess";
}
inline cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory);
