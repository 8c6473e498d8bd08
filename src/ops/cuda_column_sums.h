#pragma once

// Sums over rows, column by column, for the gradients of gains and biases: the rows are cut into
// chunks whose number depends on nothing, each chunk is summed by itself, the chunks are added in
// order. So the bits do not change from run to run.

#include "hgtrain/device/cuda_launch.h"

namespace hgt::cuda {

inline constexpr unsigned kRowChunks = 64;
inline constexpr unsigned kColumnThreads = 128;

struct RowChunk {
  std::int64_t begin, end;
};

/// The rows of the block's chunk: chunks are the y dimension of the grid.
__device__ inline RowChunk row_chunk(std::int64_t rows) {
  return {rows * blockIdx.y / kRowChunks, rows * (blockIdx.y + 1) / kRowChunks};
}

/// The column of the thread; the x dimension of the grid covers them.
__device__ inline std::int64_t column_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// For kernels that write partial[chunk][columns].
inline LaunchShape column_shape(std::int64_t columns) {
  return {{blocks_for(columns, kColumnThreads), kRowChunks}, {kColumnThreads}};
}

struct AddChunksArgs {
  const float* partial;       ///< chunk 0's sum of column 0
  std::int64_t chunk_stride;  ///< distance of chunks
  float* sums;                ///< [columns], added to
  std::int64_t columns;
};

static __global__ void add_chunks(AddChunksArgs args) {
  const std::int64_t c = column_of_thread();
  if (c >= args.columns) return;
  float sum = 0;
  for (unsigned chunk = 0; chunk < kRowChunks; ++chunk)
    sum += args.partial[chunk * args.chunk_stride + c];
  args.sums[c] += sum;
}

inline void launch_add_chunks(const CudaStreamState& stream, const AddChunksArgs& args) {
  launch(add_chunks, {{blocks_for(args.columns, kColumnThreads)}, {kColumnThreads}}, stream, args);
}

}  // namespace hgt::cuda
