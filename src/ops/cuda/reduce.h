#pragma once

// Sums and maxima over the threads of a block, for kernels. The order of a sum follows from the
// block's size alone.

#include "hgtrain/device/cuda_launch.h"

namespace hgt::cuda {

inline constexpr unsigned kWarp = 32;

template <class T>
__device__ T greater(T a, T b) {
  return b > a ? b : a;
}

template <class T>
__device__ T warp_max(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2)
    value = greater(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

template <class T>
__device__ T warp_sum(T value) {
  for (unsigned offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

/// Each value's sum over the block, returned to every thread. Blocks are whole warps; all threads
/// must call it.
template <int kCount, class T>
__device__ void block_sums(T (&values)[kCount]) {
  __shared__ T warps[kCount][kWarp];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (T& value : values) value = warp_sum(value);
  __syncthreads();  // all have read the previous call's sums
  if (lane == 0)
    for (int i = 0; i < kCount; ++i) warps[i][warp] = values[i];
  __syncthreads();
  for (int i = 0; i < kCount; ++i)
    values[i] = warp_sum(lane < blockDim.x / kWarp ? warps[i][lane] : T{});
}

template <class T>
__device__ T block_sum(T value) {
  T values[] = {value};
  block_sums(values);
  return values[0];
}

/// The largest value of the block, likewise returned to every thread.
template <class T>
__device__ T block_max(T value) {
  __shared__ T warps[kWarp];
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_max(warps[threadIdx.x % kWarp < blockDim.x / kWarp ? threadIdx.x % kWarp : 0]);
}

}  // namespace hgt::cuda
