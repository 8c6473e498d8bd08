#include "rows.h"

// Bytes moved: forward x and y once, and branch and sum if it adds; backward dy, x and dx once (dx
// twice if it is added to), and partial sums of at most 8 MiB.

namespace hgt::cuda {
namespace {

template <class T, class Void>
__device__ T* row_of(const HeadRows<Void>& x, std::int64_t i, std::int64_t heads) {
  if (heads == 1) return static_cast<T*>(x.data) + i * x.position_stride;  // saves a division
  return static_cast<T*>(x.data) + i / heads * x.position_stride + i % heads * x.head_stride;
}

template <class Op>
struct RowsArgs {
  Op op;
  unsigned threads;  ///< per row
  float* partial;    ///< for the backward, one row per chunk: [chunk][dgain, then dbias][width]
};

// kLayer: a layer norm, else an RMS norm.

/// The mean over a row, as the CPU rounds it.
template <bool kLayer>
__device__ float mean_of(float sum, std::int64_t width) {
  if constexpr (kLayer)
    return sum * (1.0f / static_cast<float>(width));
  else
    return sum / static_cast<float>(width);
}

// The variance is summed from differences to the mean, as the CPU does.
template <class T, int kHeld, bool kLayer>
__global__ void __launch_bounds__(kMaxRowThreads, 1) norm_rows(RowsArgs<NormArgs> args) {
  const NormArgs& op = args.op;
  const RowThread thread(args.threads);
  if (thread.row >= op.positions * op.heads) return;
  Vector<T> x[kHeld];
  thread.read_row(row_of<const T>(op.x, thread.row, op.heads), op.width, x);
  if (op.branch.data != nullptr)
    thread.add_row(row_of<const T>(op.branch, thread.row, op.heads),
                   row_of<T>(op.sum, thread.row, op.heads), op.width, x);
  float mean = 0, squares = 0;
  if constexpr (kLayer) {
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kHeld; ++v)
      for (int i = 0; i < kVector<T>; ++i) sum += x[v][i];
    mean = mean_of<kLayer>(thread.sum(sum), op.width);
  }
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i)
      if (!kLayer || thread.column<T>(v) + i < op.width)  // x is 0 behind the row, not x - mean
        squares += (x[v][i] - mean) * (x[v][i] - mean);
  const float rstd = 1.0f / sqrtf(mean_of<kLayer>(thread.sum(squares), op.width) + op.eps);
  T* const row = row_of<T>(op.y, thread.row, op.heads);
#pragma unroll
  for (int v = 0; v < kHeld; ++v) {
    const std::int64_t c = thread.column<T>(v), left = op.width - c;
    const Vector<T> g = read(static_cast<const T*>(op.gain) + c, left);
    Vector<T> y;
    if constexpr (kLayer) {
      const Vector<T> b = read(static_cast<const T*>(op.bias) + c, left);
      for (int i = 0; i < kVector<T>; ++i) y.set(i, (x[v][i] - mean) * rstd * g[i] + b[i]);
    } else {
      for (int i = 0; i < kVector<T>; ++i) y.set(i, x[v][i] * rstd * g[i]);
    }
    write(row + c, y, left);
  }
  if (thread.index != 0) return;
  if constexpr (kLayer) op.mean[thread.row] = mean;
  op.rstd[thread.row] = rstd;
}

// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)); in an RMS norm
// both x's mean and that of h count as 0. The threads of a row take every `chunks`-th row, and sum
// dgain and dbias at the same time.
template <class T, int kHeld, bool kLayer>
__global__ void __launch_bounds__(kMaxRowThreads, 1) norm_rows_bwd(RowsArgs<NormBwdArgs> args) {
  constexpr int kV = kVector<T>, kSums = kLayer ? 2 : 1;
  const NormBwdArgs& op = args.op;
  const RowThread thread(args.threads);
  const std::int64_t chunks = gridDim.x * (blockDim.x / args.threads), width = op.width;
  const T* const gain = static_cast<const T*>(op.gain);
  float columns[kSums][kHeld][kV] = {};  // dgain, dbias
#pragma unroll 1                         // several rows at once would spill registers
  for (std::int64_t n = thread.row; n < op.positions * op.heads; n += chunks) {
    Vector<T> x[kHeld], dy[kHeld];
    thread.read_row(row_of<const T>(op.x, n, op.heads), width, x);
    thread.read_row(row_of<const T>(op.dy, n, op.heads), width, dy);
    const float mean = kLayer ? op.mean[n] : 0, rstd = op.rstd[n];
    float sums[kSums] = {};  // of h n, of h
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v);
      const Vector<T> g = read(gain + c, width - c);
#pragma unroll
      for (int i = 0; i < kV; ++i) {
        const float normed = (x[v][i] - mean) * rstd, h = dy[v][i] * g[i];
        sums[0] += h * normed;
        columns[0][v][i] += dy[v][i] * normed;
        if constexpr (kLayer) {
          sums[1] += h;
          columns[1][v][i] += dy[v][i];
        }
      }
    }
    thread.sum(sums);
    const float mean_hn = mean_of<kLayer>(sums[0], width);
    const float mean_h = kLayer ? mean_of<kLayer>(sums[kSums - 1], width) : 0;
    T* const row = row_of<T>(op.dx, n, op.heads);
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v), left = width - c;
      const Vector<T> g = read(gain + c, left), before = read(row + c, op.accumulate ? left : 0);
      Vector<T> dx;
#pragma unroll
      for (int i = 0; i < kV; ++i)
        dx.set(i,
               before[i] + rstd * (dy[v][i] * g[i] - mean_h - (x[v][i] - mean) * rstd * mean_hn));
      write(row + c, dx, left);
    }
  }
  float* const partial = args.partial + thread.row * kSums * width;
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int v = 0; v < kHeld; ++v)
#pragma unroll
      for (int i = 0; i < kV; ++i)
        if (const std::int64_t c = thread.column<T>(v) + i; c < width)
          partial[s * width + c] = columns[s][v][i];
}

/// The chunks whose blocks run at the same time on an H100 or H200: a second, smaller wave of
/// blocks would leave most multiprocessors idle. Threads that hold more vectors need more
/// registers, so fewer of them fit.
std::int64_t chunks_of_wave(std::int64_t rows, const RowShape& shape) {
  constexpr std::int64_t kMultiprocessors = 132;
  const std::int64_t threads = shape.held == 1 ? 768 : shape.held == 2 ? 512 : 256;
  const std::int64_t of_block = std::int64_t{shape.threads} * shape.rows_per_block();
  const std::int64_t blocks = kMultiprocessors * std::max<std::int64_t>(threads / of_block, 1);
  return std::min(blocks * shape.rows_per_block(), rows);
}

}  // namespace

void norm_fwd(const NormArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = warp_row_shape(args.width, kVector<T>);
    visit_warp_held(shape.held, [&](auto held) {
      launch(args.mean != nullptr ? norm_rows<T, held, true> : norm_rows<T, held, false>,
             shape.launch_for(args.positions * args.heads), stream,
             RowsArgs<NormArgs>{args, shape.threads, nullptr});
    });
  });
}

void norm_bwd(const NormBwdArgs& args, CudaStreamState& stream) {
  const std::int64_t rows = args.positions * args.heads;
  if (rows == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = row_shape(args.width, kVector<T>);
    const LaunchShape grid = shape.launch_for(chunks_of_wave(rows, shape));
    const std::int64_t chunks = std::int64_t{grid.grid.x} * shape.rows_per_block();
    const std::int64_t columns = args.mean != nullptr ? 2 * args.width : args.width;
    float* const partial = stream.scratch<float>(chunks * columns);
    visit_held(shape.held, [&](auto held) {
      launch(args.mean != nullptr ? norm_rows_bwd<T, held, true> : norm_rows_bwd<T, held, false>,
             grid, stream, RowsArgs<NormBwdArgs>{args, shape.threads, partial});
    });
    launch_add_chunks(stream, {partial, chunks, columns, args.dgain, args.dbias, args.width});
  });
}

}  // namespace hgt::cuda
