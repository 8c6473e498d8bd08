#include "cuda_column_sums.h"
#include "cuda_launchers.h"
#include "cuda_reduce.h"

namespace hgt::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block a row. The variance is summed from differences to the mean, as the reference does.
__global__ void layer_norm_rows(LayerNormArgs args) {
  const std::int64_t n = blockIdx.x;
  const float* const x = args.x + n * args.width;
  float* const y = args.y + n * args.width;
  const float inverse_width = 1.0f / static_cast<float>(args.width);
  float sum = 0, squares = 0;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) sum += x[c];
  const float mean = block_sum(sum) * inverse_width;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x)
    squares += (x[c] - mean) * (x[c] - mean);
  const float rstd = 1.0f / sqrtf(block_sum(squares) * inverse_width + args.eps);
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x)
    y[c] = (x[c] - mean) * rstd * args.gain[c] + args.bias[c];
  if (threadIdx.x == 0) {
    args.mean[n] = mean;
    args.rstd[n] = rstd;
  }
}

struct PartialArgs {
  LayerNormBwdArgs op;
  float* partial;  ///< [chunk][dgain then dbias][width]
};

__global__ void layer_norm_columns(PartialArgs args) {
  const LayerNormBwdArgs& op = args.op;
  const std::int64_t c = column_of_thread();
  if (c >= op.width) return;
  const RowChunk chunk = row_chunk(op.rows);
  float dgain = 0, dbias = 0;
  for (std::int64_t n = chunk.begin; n < chunk.end; ++n) {
    const float dy = op.dy[n * op.width + c];
    dgain += dy * ((op.x[n * op.width + c] - op.mean[n]) * op.rstd[n]);
    dbias += dy;
  }
  float* const out = args.partial + blockIdx.y * 2 * op.width + c;
  out[0] = dgain;
  out[op.width] = dbias;
}

// With n = (x - mean) rstd and h = dy gain:  dx = rstd (h - mean(h) - n mean(h n)).
__global__ void layer_norm_rows_bwd(LayerNormBwdArgs args) {
  const std::int64_t n = blockIdx.x;
  const float* const x = args.x + n * args.width;
  const float* const dy = args.dy + n * args.width;
  float* const dx = args.dx + n * args.width;
  const float mean = args.mean[n], rstd = args.rstd[n];
  const float inverse_width = 1.0f / static_cast<float>(args.width);
  float sum_h = 0, sum_hn = 0;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) {
    const float h = dy[c] * args.gain[c];
    sum_h += h;
    sum_hn += h * ((x[c] - mean) * rstd);
  }
  const float mean_h = block_sum(sum_h) * inverse_width;
  const float mean_hn = block_sum(sum_hn) * inverse_width;
  for (std::int64_t c = threadIdx.x; c < args.width; c += blockDim.x) {
    const float gradient = rstd * (dy[c] * args.gain[c] - mean_h - (x[c] - mean) * rstd * mean_hn);
    dx[c] = args.accumulate ? dx[c] + gradient : gradient;
  }
}

}  // namespace

void layer_norm_fwd(const LayerNormArgs& args, CudaStreamState& stream) {
  launch(layer_norm_rows, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
}

void layer_norm_bwd(const LayerNormBwdArgs& args, CudaStreamState& stream) {
  // The sums first: dx may be dy.
  float* const partial = stream.scratch<float>(2 * kRowChunks * args.width);
  launch(layer_norm_columns, column_shape(args.width), stream, PartialArgs{args, partial});
  launch_add_chunks(stream, {partial, 2 * args.width, args.dgain, args.width});
  launch_add_chunks(stream, {partial + args.width, 2 * args.width, args.dbias, args.width});
  launch(layer_norm_rows_bwd, {{blocks_for(args.rows, 1)}, {kThreads}}, stream, args);
}

}  // namespace hgt::cuda
