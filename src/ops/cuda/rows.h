#pragma once

// Rows held in registers, for norms: each row is read once. A row's threads are one warp of a block
// with several, or a whole block; thread i of n holds vectors i, i + n, ...

#include "element.h"
#include "reduce.h"

namespace hgt::cuda {

/// How rows are distributed to threads.
struct RowShape {
  unsigned threads;  ///< per row
  int held;          ///< vectors per thread: 1, 2 or 4

  unsigned rows_per_block() const { return threads == kWarp ? 8 : 1; }
  LaunchShape launch_for(std::int64_t rows) const {
    return {{blocks_for(rows, rows_per_block())}, {threads * rows_per_block()}};
  }
};

inline constexpr unsigned kMaxRowThreads = 256;  ///< more would leave each too few registers

inline RowShape row_shape(std::int64_t width, int vector) {
  const std::int64_t vectors = (width + vector - 1) / vector;
  for (int held = 1; held <= 4; held *= 2) {
    const std::int64_t threads = (vectors + held * kWarp - 1) / (held * kWarp) * kWarp;
    if (threads <= kMaxRowThreads)
      return {static_cast<unsigned>(threads == 0 ? kWarp : threads), held};
  }
  throw Error(ErrorKind::kConfig, "the model's rows are too wide for the norms on CUDA",
              "use a hidden size of up to 4096 in fp32, 8192 in bf16 and fp16, or --device cpu");
}

/// Calls fn with the number of vectors per thread as a type, so that a kernel is compiled for each.
template <class Fn>
void visit_held(int held, const Fn& fn) {
  if (held == 1) return fn(std::integral_constant<int, 1>());
  if (held == 2) return fn(std::integral_constant<int, 2>());
  return fn(std::integral_constant<int, 4>());
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

}  // namespace hgt::cuda
