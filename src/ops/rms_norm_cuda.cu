#include "cuda_column_sums.h"
#include "cuda_launchers.h"
#include "cuda_reduce.h"

namespace hgt::cuda {
namespace {

template <class T>
__device__ T* row_of(const HeadRows<T>& x, std::int64_t i, std::int64_t heads) {
  return x.data + i / heads * x.position_stride + i % heads * x.head_stride;
}

/// Rows may be as short as one head (64) or as long as a hidden state.
unsigned threads_for(std::int64_t width) {
  return width <= 128 ? 32 : 256;
}

// A block a row.
__global__ void rms_norm_rows(RmsNormArgs args) {
  const std::int64_t i = blockIdx.x;
  const float* const x = row_of(args.x, i, args.heads);
  float* const y = row_of(args.y, i, args.heads);
  float squares = 0;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) squares += x[c] * x[c];
  const float rrms =
      1.0f / sqrtf(block_sum(squares) * (1.0f / static_cast<float>(args.width)) + args.eps);
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x)
    y[c] = x[c] * rrms * args.gain[c];
  if (threadIdx.x == 0) args.rrms[i] = rrms;
}

struct PartialArgs {
  RmsNormBwdArgs op;
  float* partial;  ///< [chunk][width]
};

__global__ void rms_norm_columns(PartialArgs args) {
  const RmsNormBwdArgs& op = args.op;
  const std::int64_t c = column_of_thread();
  if (c >= op.width) return;
  const RowChunk chunk = row_chunk(op.positions * op.heads);
  float dgain = 0;
  for (std::int64_t i = chunk.begin; i < chunk.end; ++i)
    dgain += row_of(op.dy, i, op.heads)[c] * (row_of(op.x, i, op.heads)[c] * op.rrms[i]);
  args.partial[blockIdx.y * op.width + c] = dgain;
}

// With n = x rrms and h = dy gain:  dx = rrms (h - n mean(h n)).
__global__ void rms_norm_rows_bwd(RmsNormBwdArgs args) {
  const std::int64_t i = blockIdx.x;
  const float* const x = row_of(args.x, i, args.heads);
  const float* const dy = row_of(args.dy, i, args.heads);
  float* const dx = row_of(args.dx, i, args.heads);
  const float rrms = args.rrms[i];
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x)
    sum += dy[c] * args.gain[c] * (x[c] * rrms);
  const float mean_hn = block_sum(sum) * (1.0f / static_cast<float>(args.width));
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) {
    const float gradient = rrms * (dy[c] * args.gain[c] - x[c] * rrms * mean_hn);
    dx[c] = args.accumulate ? dx[c] + gradient : gradient;
  }
}

}  // namespace

void rms_norm_fwd(const RmsNormArgs& args, CudaStreamState& stream) {
  launch(rms_norm_rows, {{blocks_for(args.positions * args.heads, 1)}, {threads_for(args.width)}},
         stream, args);
}

void rms_norm_bwd(const RmsNormBwdArgs& args, CudaStreamState& stream) {
  // The sums first: dx may be dy.
  float* const partial = stream.scratch<float>(kRowChunks * args.width);
  launch(rms_norm_columns, column_shape(args.width), stream, PartialArgs{args, partial});
  launch_add_chunks(stream, {partial, args.width, args.dgain, args.width});
  launch(rms_norm_rows_bwd,
         {{blocks_for(args.positions * args.heads, 1)}, {threads_for(args.width)}}, stream, args);
}

}  // namespace hgt::cuda
