#pragma once

// Sums over rows, column by column, for the gradients of gains and biases: the rows are cut into
// chunks whose number follows from the sizes, each chunk is summed into its own row of
// partial[chunk][column], and these rows are added in a fixed order. So the bits do not change from
// run to run.

#include <algorithm>

#include "reduce.h"

namespace hgt::cuda {

/// The number of chunks that keeps a large device busy if `threads` threads sum each chunk.
inline std::int64_t chunks_for(std::int64_t rows, std::int64_t threads) {
  constexpr std::int64_t kBusy = 1 << 17;
  return std::clamp<std::int64_t>(kBusy / threads, 1, std::max<std::int64_t>(rows, 1));
}

struct AddChunksArgs {
  const float* partial;  ///< [chunks][columns]
  std::int64_t chunks, columns;
  float* sums;       ///< for the first `first_columns`; added to
  float* more_sums;  ///< for the others
  std::int64_t first_columns;
};

/// One block for 32 columns: 32 threads add the chunks of a column, every 32nd chunk each.
static __global__ void add_chunks(AddChunksArgs args) {
  __shared__ float sums[kWarp][kWarp + 1];
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarp;
  float sum = 0;
  if (first + lane < args.columns)
    for (std::int64_t chunk = warp; chunk < args.chunks; chunk += kWarp)
      sum += args.partial[chunk * args.columns + first + lane];
  sums[warp][lane] = sum;
  __syncthreads();
  const std::int64_t column = first + warp;
  sum = warp_sum(sums[lane][warp]);
  if (lane != 0 || column >= args.columns) return;
  (column < args.first_columns ? args.sums + column
                               : args.more_sums + (column - args.first_columns))[0] += sum;
}

inline void launch_add_chunks(const CudaStreamState& stream, const AddChunksArgs& args) {
  launch(add_chunks, {{blocks_for(args.columns, kWarp)}, {kWarp * kWarp}}, stream, args);
}

}  // namespace hgt::cuda
