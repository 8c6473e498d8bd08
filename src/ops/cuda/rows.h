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
  int held;          ///< vectors per thread, of those that visit_held knows

  unsigned rows_per_block() const { return threads == kWarp ? 4 : 1; }
  LaunchShape launch_for(std::int64_t rows) const {
    return {{blocks_for(rows, rows_per_block())}, {threads * rows_per_block()}};
  }
};

/// More would leave each too few registers. Blocks of rows with a warp each have half as many.
inline constexpr unsigned kMaxRowThreads = 256;
static_assert(kMaxRowBytes == 4 * kMaxRowThreads * sizeof(Vector<float>));

/// The threads of a row if each holds `held` vectors; whole warps, and at least one.
inline unsigned threads_for(std::int64_t vectors, int held) {
  const std::int64_t of_warp = held * std::int64_t{kWarp};
  return static_cast<unsigned>(std::max<std::int64_t>((vectors + of_warp - 1) / of_warp, 1)) *
         kWarp;
}

/// The threads of rows of `width` elements, `vector` of them in a vector. A row gets one warp,
/// which needs no barrier, if its threads hold at most `max_of_warp` vectors each; else it gets a
/// block. Rows that are not `whole` have one shape, so that fewer kernels are compiled.
inline RowShape row_shape(std::int64_t width, int vector, bool whole, int max_of_warp) {
  const std::int64_t vectors = (width + vector - 1) / vector;
  if (whole)
    for (const int held : {1, 2, 3, 4, 6, 8})
      if (held <= max_of_warp && threads_for(vectors, held) == kWarp) return {kWarp, held};
  for (const int held : {1, 2, 4})
    if ((whole || held == 4) && threads_for(vectors, held) <= kMaxRowThreads)
      return {threads_for(vectors, held), held};
  throw Error(ErrorKind::kConfig, "the model's rows are too wide for the norms on CUDA",
              "use a hidden size of up to " + std::to_string(kMaxRowBytes / 4) + " in fp32, " +
                  std::to_string(kMaxRowBytes / 2) + " in bf16 and fp16, or --device cpu");
}

/// Calls fn with the number of vectors per thread, which is at most kMax, and whether rows are
/// whole, as types, so that a kernel is compiled for each pair.
template <int kMax, class Fn>
void visit_rows(int held, bool whole, const Fn& fn) {
  const auto call = [&]<int kHeld>(std::integral_constant<int, kHeld> known) {
    if constexpr (kHeld <= kMax)
      if (held == kHeld) fn(known, std::true_type());
  };
  if (!whole) return fn(std::integral_constant<int, 4>(), std::false_type());
  call(std::integral_constant<int, 1>());
  call(std::integral_constant<int, 2>());
  call(std::integral_constant<int, 3>());
  call(std::integral_constant<int, 4>());
  call(std::integral_constant<int, 6>());
  call(std::integral_constant<int, 8>());
}

/// The thread's index among those of its row, and the row's index in the grid.
struct RowThread {
  unsigned index, threads;
  std::int64_t row;

  __device__ explicit RowThread(unsigned threads_of_row)
      : index(threads_of_row == kWarp ? threadIdx.x % kWarp : threadIdx.x),
        threads(threads_of_row),
        row(blockIdx.x * rows_of_block() + (threads == kWarp ? threadIdx.x / kWarp : 0)) {}

  __device__ std::int64_t rows_of_block() const {
    return threads == kWarp ? blockDim.x / kWarp : 1;
  }

  /// The first column of the thread's vector `i`.
  template <class T>
  __device__ int column(int i) const {
    return (i * static_cast<int>(threads) + static_cast<int>(index)) * kVector<T>;
  }
  template <bool kWhole, class T, int kHeld>
  __device__ void read_row(const T* from, int width, Vector<T> (&to)[kHeld]) const {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      to[i] = read_of_row<kWhole>(from + column<T>(i), width - column<T>(i));
  }
  /// Adds another row to the one that was read, and writes the sum.
  template <bool kWhole, class T, int kHeld>
  __device__ void add_row(const T* from, T* to, int width, Vector<T> (&row)[kHeld]) const {
    Vector<T> more[kHeld];
    read_row<kWhole>(from, width, more);
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const int c = column<T>(v);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) row[v].set(i, row[v][i] + more[v][i]);
      write_of_row<kWhole>(to + c, row[v], width - c);
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
  /// If the block has several rows, adds the values that their threads of the same index have: in
  /// the first row's threads, in a fixed order. All threads of the block must call it.
  template <int kCount>
  __device__ void add_rows_of_block(float (&values)[kCount]) const {
    __shared__ float sent[kCount][kWarp];
    const unsigned own = threads == kWarp ? threadIdx.x / kWarp : 0;
    for (unsigned from = 1; from < rows_of_block(); ++from) {  // a row is a warp then
      if (own == from)
        for (int i = 0; i < kCount; ++i) sent[i][index] = values[i];
      __syncthreads();
      if (own == 0)
        for (int i = 0; i < kCount; ++i) values[i] += sent[i][index];
      __syncthreads();
    }
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
