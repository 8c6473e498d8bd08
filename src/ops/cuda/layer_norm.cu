#include "rows.h"

// Bytes moved: forward x and y once, and branch and sum if it adds; backward dy, x and dx once (dx
// twice if it is added to), and partial sums of at most 8 MiB.

namespace hgt::cuda {
namespace {

template <class Op>
struct RowsArgs {
  Op op;
  unsigned threads;  ///< per row
  float* partial;    ///< for the backward, one row per chunk: [chunk][dgain then dbias][width]
};

// The variance is summed from differences to the mean, as the CPU does.
template <class T, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads, 1) layer_norm_rows(RowsArgs<LayerNormArgs> args) {
  const LayerNormArgs& op = args.op;
  const RowThread thread(args.threads);
  if (thread.row >= op.rows) return;
  const T* const gain = static_cast<const T*>(op.gain);
  const T* const bias = static_cast<const T*>(op.bias);
  const std::int64_t first = thread.row * op.width;
  Vector<T> x[kHeld];
  thread.read_row(static_cast<const T*>(op.x) + first, op.width, x);
  if (op.branch != nullptr)
    thread.add_row(static_cast<const T*>(op.branch) + first, static_cast<T*>(op.sum) + first,
                   op.width, x);
  const float inverse_width = 1.0f / static_cast<float>(op.width);
  float sum = 0, squares = 0;
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i) sum += x[v][i];
  const float mean = thread.sum(sum) * inverse_width;
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i)
      if (thread.column<T>(v) + i < op.width) squares += (x[v][i] - mean) * (x[v][i] - mean);
  const float rstd = 1.0f / sqrtf(thread.sum(squares) * inverse_width + op.eps);
#pragma unroll
  for (int v = 0; v < kHeld; ++v) {
    const std::int64_t c = thread.column<T>(v), left = op.width - c;
    const Vector<T> g = read(gain + c, left), b = read(bias + c, left);
    Vector<T> y;
    for (int i = 0; i < kVector<T>; ++i) y.set(i, (x[v][i] - mean) * rstd * g[i] + b[i]);
    write(static_cast<T*>(op.y) + first + c, y, left);
  }
  if (thread.index != 0) return;
  op.mean[thread.row] = mean;
  op.rstd[thread.row] = rstd;
}

// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)). The threads of
// a row take every `chunks`-th row, and sum dgain and dbias at the same time.
template <class T, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    layer_norm_rows_bwd(RowsArgs<LayerNormBwdArgs> args) {
  constexpr int kV = kVector<T>;
  const LayerNormBwdArgs& op = args.op;
  const RowThread thread(args.threads);
  const std::int64_t chunks = gridDim.x * (blockDim.x / args.threads), width = op.width;
  const float inverse_width = 1.0f / static_cast<float>(width);
  const T* const gain = static_cast<const T*>(op.gain);
  float dgain[kHeld][kV] = {}, dbias[kHeld][kV] = {};
#pragma unroll 1  // several rows at once would spill registers
  for (std::int64_t n = thread.row; n < op.rows; n += chunks) {
    Vector<T> x[kHeld], dy[kHeld];
    thread.read_row(static_cast<const T*>(op.x) + n * width, width, x);
    thread.read_row(static_cast<const T*>(op.dy) + n * width, width, dy);
    const float mean = op.mean[n], rstd = op.rstd[n];
    float sums[2] = {};  // sums of h, of h n
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v);
      const Vector<T> g = read(gain + c, width - c);
#pragma unroll
      for (int i = 0; i < kV; ++i) {
        const float normed = (x[v][i] - mean) * rstd, h = dy[v][i] * g[i];
        sums[0] += h;
        sums[1] += h * normed;
        dgain[v][i] += dy[v][i] * normed;
        dbias[v][i] += dy[v][i];
      }
    }
    thread.sum(sums);
    const float mean_h = sums[0] * inverse_width, mean_hn = sums[1] * inverse_width;
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v), left = width - c;
      T* const to = static_cast<T*>(op.dx) + n * width + c;
      const Vector<T> g = read(gain + c, left), before = read(to, op.accumulate ? left : 0);
      Vector<T> dx;
#pragma unroll
      for (int i = 0; i < kV; ++i)
        dx.set(i,
               before[i] + rstd * (dy[v][i] * g[i] - mean_h - (x[v][i] - mean) * rstd * mean_hn));
      write(to, dx, left);
    }
  }
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
#pragma unroll
    for (int i = 0; i < kV; ++i)
      if (const std::int64_t c = thread.column<T>(v) + i; c < width) {
        args.partial[thread.row * 2 * width + c] = dgain[v][i];
        args.partial[thread.row * 2 * width + width + c] = dbias[v][i];
      }
}

}  // namespace

void layer_norm_fwd(const LayerNormArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = row_shape(args.width, kVector<T>);
    visit_held(shape.held, [&](auto held) {
      launch(layer_norm_rows<T, held>, shape.launch_for(args.rows), stream,
             RowsArgs<LayerNormArgs>{args, shape.threads, nullptr});
    });
  });
}

void layer_norm_bwd(const LayerNormBwdArgs& args, CudaStreamState& stream) {
  if (args.rows == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = row_shape(args.width, kVector<T>);
    const LaunchShape grid = shape.launch_for(chunks_for(args.rows, shape.threads));
    const std::int64_t chunks = std::int64_t{grid.grid.x} * shape.rows_per_block();
    float* const partial = stream.scratch<float>(chunks * 2 * args.width);
    visit_held(shape.held, [&](auto held) {
      launch(layer_norm_rows_bwd<T, held>, grid, stream,
             RowsArgs<LayerNormBwdArgs>{args, shape.threads, partial});
    });
    launch_add_chunks(stream,
                      {partial, chunks, 2 * args.width, args.dgain, args.dbias, args.width});
  });
}

}  // namespace hgt::cuda
