#include "rows.h"

// Bytes moved: forward x and y once, and branch and sum if it adds; backward dy, x and dx once (dx
// twice if it is added to), and partial sums of at most 8 MiB.

namespace hgt::cuda {
namespace {

/// The most vectors per thread with which a row gets one warp. The backward has three times as many
/// in registers, and sums for each column: with more it would hold too few warps.
constexpr int kMaxHeldOfWarp = 8, kMaxHeldOfWarpBwd = 3;

/// The most threads of a block: with 3, 6 or 8 vectors, a row has a warp.
template <int kHeld>
inline constexpr unsigned kThreads = kHeld == 3 || kHeld > 4 ? kMaxRowThreads / 2 : kMaxRowThreads;
/// The blocks that a multiprocessor must hold at least, so that it loads enough at the same time.
template <bool kWhole>
inline constexpr int kBlocks = kWhole ? 3 : 1;
/// Of the backward, which also has the sums of columns in registers.
template <int kHeld>
inline constexpr int kBlocksBwd = kHeld == 1   ? 4
                                  : kHeld == 2 ? 2
                                  : kHeld == 3 ? 3
                                               : 1;

template <class T, class Void>
__device__ T* row_of(const HeadRows<Void>& x, std::int64_t i, std::int64_t heads) {
  if (heads == 1) return static_cast<T*>(x.data) + i * x.position_stride;  // saves a division
  return static_cast<T*>(x.data) + i / heads * x.position_stride + i % heads * x.head_stride;
}

template <class Op>
struct RowsArgs {
  Op op;
  unsigned threads;  ///< per row
  float* partial;    ///< for the backward, one row per block: [block][dgain, then dbias][width]
};

/// Whether rows consist of whole, aligned vectors of T.
template <class T>
bool are_whole(const void* data, std::int64_t width) {
  return reinterpret_cast<std::uintptr_t>(data) % sizeof(Vector<T>) == 0 && width % kVector<T> == 0;
}
template <class T, class Void>
bool are_whole(const HeadRows<Void>& rows) {
  return are_whole<T>(rows.data, rows.position_stride) && rows.head_stride % kVector<T> == 0;
}

// kLayer: a layer norm, else an RMS norm. kWhole: rows consist of whole, aligned vectors.

/// The mean over a row, as the CPU rounds it.
template <bool kLayer>
__device__ float mean_of(float sum, int width) {
  if constexpr (kLayer)
    return sum * (1.0f / static_cast<float>(width));
  else
    return sum / static_cast<float>(width);
}

// The variance is summed from differences to the mean, as the CPU does.
template <class T, int kHeld, bool kLayer, bool kWhole>
__global__ void __launch_bounds__(kThreads<kHeld>, kBlocks<kWhole>)
    norm_rows(RowsArgs<NormArgs> args) {
  const NormArgs& op = args.op;
  const RowThread thread(args.threads);
  if (thread.row >= op.positions * op.heads) return;
  const int width = static_cast<int>(op.width);
  Vector<T> elements[kHeld];
  thread.read_row<kWhole>(row_of<const T>(op.x, thread.row, op.heads), width, elements);
  if (op.branch.data != nullptr)
    thread.add_row<kWhole>(row_of<const T>(op.branch, thread.row, op.heads),
                           row_of<T>(op.sum, thread.row, op.heads), width, elements);
  float x[kHeld][kVector<T>], mean = 0, squares = 0;
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i) x[v][i] = elements[v][i];
  if constexpr (kLayer) {
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kHeld; ++v)
      for (int i = 0; i < kVector<T>; ++i) sum += x[v][i];
    mean = mean_of<kLayer>(thread.sum(sum), width);
#pragma unroll
    for (int v = 0; v < kHeld; ++v)
      for (int i = 0; i < kVector<T>; ++i)  // 0 beyond the row
        x[v][i] = thread.column<T>(v) + (kWhole ? 0 : i) < width ? x[v][i] - mean : 0;
  }
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i) squares += x[v][i] * x[v][i];
  const float rstd = 1.0f / sqrtf(mean_of<kLayer>(thread.sum(squares), width) + op.eps);
  T* const row = row_of<T>(op.y, thread.row, op.heads);
#pragma unroll
  for (int v = 0; v < kHeld; ++v) {
    const int c = thread.column<T>(v), left = width - c;
    const Vector<T> g = read_of_row<kWhole>(static_cast<const T*>(op.gain) + c, left);
    Vector<T> y;
    if constexpr (kLayer) {
      const Vector<T> b = read_of_row<kWhole>(static_cast<const T*>(op.bias) + c, left);
      for (int i = 0; i < kVector<T>; ++i) y.set(i, x[v][i] * rstd * g[i] + b[i]);
    } else {
      for (int i = 0; i < kVector<T>; ++i) y.set(i, x[v][i] * rstd * g[i]);
    }
    write_of_row<kWhole>(row + c, y, left);
  }
  if (thread.index != 0) return;
  if constexpr (kLayer) op.mean[thread.row] = mean;
  op.rstd[thread.row] = rstd;
}

// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)); in an RMS norm
// both x's mean and that of h count as 0. The threads of a row take every `stride`-th row, and sum
// dgain and dbias at the same time.
template <class T, int kHeld, bool kLayer, bool kWhole>
__global__ void __launch_bounds__(kThreads<kHeld>, kBlocksBwd<kHeld>)
    norm_rows_bwd(RowsArgs<NormBwdArgs> args) {
  constexpr int kV = kVector<T>, kSums = kLayer ? 2 : 1;
  const NormBwdArgs& op = args.op;
  const RowThread thread(args.threads);
  const std::int64_t stride = gridDim.x * thread.rows_of_block();
  const int width = static_cast<int>(op.width);
  const T* const gain = static_cast<const T*>(op.gain);
  float columns[kSums * kHeld * kV] = {};  // dgain, then dbias
#pragma unroll 1                           // several rows at once would spill registers
  for (std::int64_t n = thread.row; n < op.positions * op.heads; n += stride) {
    T* const row = row_of<T>(op.dx, n, op.heads);
    Vector<T> x[kHeld], dy[kHeld], before[kHeld];
    thread.read_row<kWhole>(row_of<const T>(op.x, n, op.heads), width, x);
    thread.read_row<kWhole>(row_of<const T>(op.dy, n, op.heads), width, dy);
    thread.read_row<kWhole>(row, op.accumulate ? width : 0, before);
    const float mean = kLayer ? op.mean[n] : 0, rstd = op.rstd[n];
    float sums[kSums] = {};  // of h n, of h
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const int c = thread.column<T>(v);
      const Vector<T> g = read_of_row<kWhole>(gain + c, width - c);
#pragma unroll
      for (int i = 0; i < kV; ++i) {
        const float normed = (x[v][i] - mean) * rstd, h = dy[v][i] * g[i];
        sums[0] += h * normed;
        columns[v * kV + i] += dy[v][i] * normed;
        if constexpr (kLayer) {
          sums[1] += h;
          columns[(kHeld + v) * kV + i] += dy[v][i];
        }
      }
    }
    thread.sum(sums);
    const float mean_hn = mean_of<kLayer>(sums[0], width);
    const float mean_h = kLayer ? mean_of<kLayer>(sums[kSums - 1], width) : 0;
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const int c = thread.column<T>(v), left = width - c;
      const Vector<T> g = read_of_row<kWhole>(gain + c, left);
      Vector<T> dx;
#pragma unroll
      for (int i = 0; i < kV; ++i)
        dx.set(i, before[v][i] +
                      rstd * (dy[v][i] * g[i] - mean_h - (x[v][i] - mean) * rstd * mean_hn));
      write_of_row<kWhole>(row + c, dx, left);
    }
  }
  thread.add_rows_of_block(columns);
  if (threadIdx.x >= args.threads) return;
  float* const partial = args.partial + blockIdx.x * kSums * width;
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int v = 0; v < kHeld; ++v)
#pragma unroll
      for (int i = 0; i < kV; ++i)
        if (const int c = thread.column<T>(v) + i; c < width)
          partial[s * width + c] = columns[(s * kHeld + v) * kV + i];
}

/// The blocks that run at the same time: a second, smaller wave of blocks would leave most
/// multiprocessors idle.
template <int kHeld>
std::int64_t blocks_of_wave(const RowShape& shape, int multiprocessors) {
  const unsigned of_block = shape.threads * shape.rows_per_block();
  return std::int64_t{multiprocessors} * (kBlocksBwd<kHeld> * kThreads<kHeld> / of_block);
}

}  // namespace

void norm_fwd(const NormArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const bool whole = are_whole<T>(args.x) && are_whole<T>(args.branch) &&
                       are_whole<T>(args.sum) && are_whole<T>(args.y) &&
                       are_whole<T>(args.gain, args.width) && are_whole<T>(args.bias, args.width);
    const RowShape shape = row_shape(args.width, kVector<T>, whole, kMaxHeldOfWarp);
    visit_rows<kMaxHeldOfWarp>(shape.held, whole, [&](auto held, auto whole) {
      launch(
          args.mean != nullptr ? norm_rows<T, held, true, whole> : norm_rows<T, held, false, whole>,
          shape.launch_for(args.positions * args.heads), stream,
          RowsArgs<NormArgs>{args, shape.threads, nullptr});
    });
  });
}

void norm_bwd(const NormBwdArgs& args, CudaStreamState& stream) {
  const std::int64_t rows = args.positions * args.heads;
  if (rows == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    const bool whole = are_whole<T>(args.x) && are_whole<T>(args.dy) && are_whole<T>(args.dx) &&
                       are_whole<T>(args.gain, args.width);
    const RowShape shape = row_shape(args.width, kVector<T>, whole, kMaxHeldOfWarpBwd);
    visit_rows<4>(shape.held, whole, [&](auto held, auto whole) {
      LaunchShape grid = shape.launch_for(rows);
      const std::int64_t blocks =
          std::min<std::int64_t>(grid.grid.x, blocks_of_wave<held>(shape, stream.multiprocessors));
      grid.grid.x = static_cast<unsigned>(blocks);
      const std::int64_t columns = args.mean != nullptr ? 2 * args.width : args.width;
      float* const partial = stream.scratch<float>(blocks * columns);
      launch(args.mean != nullptr ? norm_rows_bwd<T, held, true, whole>
                                  : norm_rows_bwd<T, held, false, whole>,
             grid, stream, RowsArgs<NormBwdArgs>{args, shape.threads, partial});
      launch_add_chunks(stream, {partial, blocks, columns, args.dgain, args.dbias, args.width});
    });
  });
}

}  // namespace hgt::cuda
