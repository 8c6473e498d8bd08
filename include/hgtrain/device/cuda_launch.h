#pragma once

// For kernel sources (.cu) only. A kernel takes one struct of pointers and sizes by value and
// is started only by `launch`: no <<<>>>, no Tensor, no config, no logging in a .cu file. So
// the source of a kernel depends on the CUDA language alone, and one place starts all
// kernels.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "hgtrain/device/cuda_check.h"
#include "hgtrain/device/cuda_stream_state.h"

namespace hgt {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  /// Dynamic shared memory; above 48 KiB the kernel must have asked for it.
  std::size_t shared_bytes = 0;
};

/// Starts kernel(args) on the stream; returns at once. Nothing is launched for an empty grid.
template <class Args>
void launch(void (*kernel)(Args), const LaunchShape& shape, const CudaStreamState& on, Args args) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = on.use();
  HGT_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args));
}

/// The number of blocks of `threads` threads that cover `count` elements, `per_thread` per thread.
inline unsigned blocks_for(std::int64_t count, unsigned threads, std::int64_t per_thread = 1) {
  const std::int64_t each = threads * per_thread, blocks = (count + each - 1) / each;
  if (blocks > 2147483647)  // limit of the grid's first dimension
    throw Error(ErrorKind::kInternal, "a kernel would need more than 2^31 - 1 blocks");
  return static_cast<unsigned>(blocks);
}

}  // namespace hgt
