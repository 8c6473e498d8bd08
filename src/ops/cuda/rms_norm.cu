#include "rows.h"

// Bytes moved: forward x and y once, and branch and sum if it adds; backward dy, x and dx once (dx
// twice if it is added to), and partial sums of at most 4 MiB.

namespace hgt::cuda {
namespace {

template <class T, class Void>
__device__ T* row_of(const HeadRows<Void>& x, std::int64_t i, std::int64_t heads) {
  return static_cast<T*>(x.data) + i / heads * x.position_stride + i % heads * x.head_stride;
}

template <class Op>
struct RowsArgs {
  Op op;
  unsigned threads;  ///< per row
  float* partial;    ///< for the backward, one row per chunk: [chunk][width]
};

template <class T, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads, 1) rms_norm_rows(RowsArgs<RmsNormArgs> args) {
  const RmsNormArgs& op = args.op;
  const RowThread thread(args.threads);
  if (thread.row >= op.positions * op.heads) return;
  Vector<T> x[kHeld];
  thread.read_row(row_of<const T>(op.x, thread.row, op.heads), op.width, x);
  if (op.branch.data != nullptr)
    thread.add_row(row_of<const T>(op.branch, thread.row, op.heads),
                   row_of<T>(op.sum, thread.row, op.heads), op.width, x);
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
    for (int i = 0; i < kVector<T>; ++i) squares += x[v][i] * x[v][i];
  const float rrms = 1.0f / sqrtf(thread.sum(squares) / static_cast<float>(op.width) + op.eps);
  T* const row = row_of<T>(op.y, thread.row, op.heads);
#pragma unroll
  for (int v = 0; v < kHeld; ++v) {
    const std::int64_t c = thread.column<T>(v), left = op.width - c;
    const Vector<T> g = read(static_cast<const T*>(op.gain) + c, left);
    Vector<T> y;
    for (int i = 0; i < kVector<T>; ++i) y.set(i, x[v][i] * rrms * g[i]);
    write(row + c, y, left);
  }
  if (thread.index == 0) op.rrms[thread.row] = rrms;
}

// With n = x rrms and h = dy gain:  dx = rrms (h - n mean(h n)). The threads of a row take every
// `chunks`-th row, and sum dgain at the same time.
template <class T, int kHeld>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    rms_norm_rows_bwd(RowsArgs<RmsNormBwdArgs> args) {
  constexpr int kV = kVector<T>;
  const RmsNormBwdArgs& op = args.op;
  const RowThread thread(args.threads);
  const std::int64_t chunks = gridDim.x * (blockDim.x / args.threads), width = op.width;
  const T* const gain = static_cast<const T*>(op.gain);
  float dgain[kHeld][kV] = {};
#pragma unroll 1  // several rows at once would spill registers
  for (std::int64_t n = thread.row; n < op.positions * op.heads; n += chunks) {
    Vector<T> x[kHeld], dy[kHeld];
    thread.read_row(row_of<const T>(op.x, n, op.heads), width, x);
    thread.read_row(row_of<const T>(op.dy, n, op.heads), width, dy);
    const float rrms = op.rrms[n];
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v);
      const Vector<T> g = read(gain + c, width - c);
#pragma unroll
      for (int i = 0; i < kV; ++i) {
        const float normed = x[v][i] * rrms;
        sum += dy[v][i] * g[i] * normed;
        dgain[v][i] += dy[v][i] * normed;
      }
    }
    const float mean_hn = thread.sum(sum) / static_cast<float>(width);
    T* const row = row_of<T>(op.dx, n, op.heads);
#pragma unroll
    for (int v = 0; v < kHeld; ++v) {
      const std::int64_t c = thread.column<T>(v), left = width - c;
      const Vector<T> g = read(gain + c, left), before = read(row + c, op.accumulate ? left : 0);
      Vector<T> dx;
#pragma unroll
      for (int i = 0; i < kV; ++i)
        dx.set(i, before[i] + rrms * (dy[v][i] * g[i] - x[v][i] * rrms * mean_hn));
      write(row + c, dx, left);
    }
  }
#pragma unroll
  for (int v = 0; v < kHeld; ++v)
#pragma unroll
    for (int i = 0; i < kV; ++i)
      if (const std::int64_t c = thread.column<T>(v) + i; c < width)
        args.partial[thread.row * width + c] = dgain[v][i];
}

}  // namespace

void rms_norm_fwd(const RmsNormArgs& args, CudaStreamState& stream) {
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = row_shape(args.width, kVector<T>);
    visit_held(shape.held, [&](auto held) {
      launch(rms_norm_rows<T, held>, shape.launch_for(args.positions * args.heads), stream,
             RowsArgs<RmsNormArgs>{args, shape.threads, nullptr});
    });
  });
}

void rms_norm_bwd(const RmsNormBwdArgs& args, CudaStreamState& stream) {
  const std::int64_t rows = args.positions * args.heads;
  if (rows == 0) return;
  visit_element(args.type, [&]<class T>(T) {
    const RowShape shape = row_shape(args.width, kVector<T>);
    const LaunchShape grid = shape.launch_for(chunks_for(rows, shape.threads));
    const std::int64_t chunks = std::int64_t{grid.grid.x} * shape.rows_per_block();
    float* const partial = stream.scratch<float>(chunks * args.width);
    visit_held(shape.held, [&](auto held) {
      launch(rms_norm_rows_bwd<T, held>, grid, stream,
             RowsArgs<RmsNormBwdArgs>{args, shape.threads, partial});
    });
    launch_add_chunks(stream, {partial, chunks, args.width, args.dgain, nullptr, args.width});
  });
}

}  // namespace hgt::cuda
