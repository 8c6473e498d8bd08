#pragma once

// Passes over the rows of a matrix: norms of rows, and sums over rows.

#include <algorithm>
#include <string>

#include "hgtrain/base/kernel_sizes.h"

#include "kernel.h"

namespace hgt::cuda {

// ---- Rows held in registers, so that each is read once. A row's threads are one warp of a block
// with several, or a whole block; thread i of n holds vectors i, i + n, ...

/// How rows are distributed to threads.
struct RowShape {
  unsigned threads;  ///< per row
  int held;          ///< vectors per thread: 1, 2 or 4; if a row has a warp, perhaps 3

  unsigned rows_per_block() const { return threads == kWarp ? 8 : 1; }
  LaunchShape launch_for(std::int64_t rows) const {
    return {{blocks_for(rows, rows_per_block())}, {threads * rows_per_block()}};
  }
};

inline constexpr unsigned kMaxRowThreads = 256;  ///< more would leave each too few registers
static_assert(kMaxRowBytes == 4 * kMaxRowThreads * sizeof(Vector<float>));

inline RowShape row_shape(std::int64_t width, int vector) {
  const std::int64_t vectors = (width + vector - 1) / vector;
  for (int held = 1; held <= 4; held *= 2) {
    const std::int64_t threads = (vectors + held * kWarp - 1) / (held * kWarp) * kWarp;
    if (threads <= kMaxRowThreads)
      return {static_cast<unsigned>(threads == 0 ? kWarp : threads), held};
  }
  throw Error(ErrorKind::kConfig, "the model's rows are too wide for the norms on CUDA",
              "use a hidden size of up to " + std::to_string(kMaxRowBytes / 4) + " in fp32, " +
                  std::to_string(kMaxRowBytes / 2) + " in bf16 and fp16, or --device cpu");
}

/// Likewise, but a row gets only one warp if a warp can hold it; no barrier is needed then.
inline RowShape warp_row_shape(std::int64_t width, int vector) {
  constexpr std::int64_t kMaxHeld = 4;
  const std::int64_t held = (width + vector * kWarp - 1) / (vector * kWarp);
  if (held > kMaxHeld) return row_shape(width, vector);
  return {kWarp, static_cast<int>(std::max<std::int64_t>(held, 1))};
}

/// Calls fn with the number of vectors per thread as a type, so that a kernel is compiled for each.
template <class Fn>
void visit_held(int held, const Fn& fn) {
  if (held == 1) return fn(std::integral_constant<int, 1>());
  if (held == 2) return fn(std::integral_constant<int, 2>());
  return fn(std::integral_constant<int, 4>());
}
/// The same for a warp_row_shape.
template <class Fn>
void visit_warp_held(int held, const Fn& fn) {
  if (held == 3) return fn(std::integral_constant<int, 3>());
  visit_held(held, fn);
}

/// The thread's index among those of its row, and the row's index in the grid.
struct RowThread {
  unsigned index, threads;
  std::int64_t row;

  __device__ explicit RowThread(unsigned threads_of_row)
      : index(threadIdx.x % threads_of_row),
        threads(threads_of_row),
        row(std::int64_t{blockIdx.x} * (blockDim.x / threads_of_row) +
            threadIdx.x / threads_of_row) {}

  /// The first column of the thread's vector `i`.
  template <class T>
  __device__ std::int64_t column(int i) const {
    return (std::int64_t{i} * threads + index) * kVector<T>;
  }
  template <class T, int kHeld>
  __device__ void read_row(const T* from, std::int64_t width, Vector<T> (&to)[kHeld]) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) to[i] = read(from + column<T>(i), width - column<T>(i));
  }
  /// Adds another row to the one that was read, and writes the sum.
  template <class T, int kHeld>
  __device__ void add_row(const T* from, T* to, std::int64_t width, Vector<T> (&row)[kHeld]) const {
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = column<T>(v), left = width - c;
      const Vector<T> more = read(from + c, left);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) row[v].set(i, row[v][i] + more[i]);
      write(to + c, row[v], left);
    }
  }
  /// Each value's sum over the threads of the row.
  template <int kCount>
  __device__ void sum(float (&values)[kCount]) const {
    if (threads != kWarp) return block_sums(values);
    for (float& value : values) value = warp_sum(value);
  }
  __device__ float sum(float value) const {
    float values[] = {value};
    sum(values);
    return values[0];
  }
};

// ---- Sums over rows, column by column, for the gradients of gains and biases: the rows are cut
// into chunks whose number follows from the sizes, each chunk is summed into its own row of
// partial[chunk][column], and these rows are added in a fixed order. So the bits do not change from
// run to run.

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
static __global__ void __launch_bounds__(kWarp* kWarp) add_chunks(AddChunksArgs args) {
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
