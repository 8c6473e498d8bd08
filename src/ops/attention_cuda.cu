#include "cuda_dropout.h"
#include "cuda_launchers.h"
#include "cuda_reduce.h"

// A warp a row, no T x S matrix: keys (or queries) are taken 32 at a time, one by each lane, then
// their rows are added up with each lane holding every 32nd dimension. The order of every sum is
// fixed.

namespace hgt::cuda {
namespace {

constexpr unsigned kWarps = 4;  ///< of a block
constexpr int kPerLane = 8;     ///< dimensions of a head that a lane holds
constexpr std::int64_t kMaxWidth = kPerLane * kWarp;

template <class T>
__device__ T* row_at(const Heads<T>& x, std::int64_t b, std::int64_t t, std::int64_t h) {
  return x.data + b * x.batch_stride + t * x.position_stride + h * x.head_stride;
}

__device__ float dot(const float* x, const float* y, std::int64_t width) {
  float sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i] * y[i];
  return sum;
}

/// A lane's share of a row: dimensions lane, lane + 32, ...
struct Share {
  float values[kPerLane] = {};

  __device__ void scale(float factor) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) values[i] *= factor;
  }
  __device__ void add(float weight, const float* row, std::int64_t width) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (const unsigned at = threadIdx.x % kWarp + i * kWarp; at < width)
        values[i] += weight * row[at];
  }
  __device__ void write(float* row, std::int64_t width) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (const unsigned at = threadIdx.x % kWarp + i * kWarp; at < width) row[at] = values[i];
  }
};

__device__ std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// The row of the thread's warp.
__device__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
}

/// First key that query t sees when it is at position `position`.
__device__ std::int64_t first_key(std::int64_t position, std::int64_t window) {
  return window > 0 && position >= window ? position + 1 - window : 0;
}

__global__ void attend(AttentionArgs args) {
  const std::int64_t row = row_of_warp();
  if (row >= args.batch * args.heads * args.queries) return;
  const std::int64_t t = row % args.queries, h = row / args.queries % args.heads;
  const std::int64_t b = row / args.queries / args.heads, kh = h / (args.heads / args.key_heads);
  const std::int64_t position = t + args.keys - args.queries, end = position + 1;
  const float* const q = row_at(args.q, b, t, h);
  Share out;
  float highest = -INFINITY, sum = 0;
  for (std::int64_t first = first_key(position, args.window); first < end; first += kWarp) {
    const std::int64_t j = first + threadIdx.x % kWarp;
    float score = -INFINITY, weight = 0;
    if (j < end) score = args.scale * dot(q, row_at(args.k, b, j, kh), args.width);
    const float next = greater(highest, warp_max(score));
    const float p = j < end ? expf(score - next) : 0.0f;
    if (j < end)
      weight = p * dropout_factor(args.dropout, b, (h * args.queries + t) * args.queries + j);
    const float shrink = expf(highest - next);
    sum = sum * shrink + warp_sum(p);
    out.scale(shrink);
    for (std::int64_t l = 0; l < smaller(kWarp, end - first); ++l)
      out.add(__shfl_sync(~0u, weight, static_cast<int>(l)), row_at(args.v, b, first + l, kh),
              args.width);
    highest = next;
  }
  out.scale(1.0f / sum);
  out.write(row_at(args.out, b, t, h), args.width);
  if (threadIdx.x % kWarp == 0) args.lse[row] = highest + logf(sum);
}

struct BackwardArgs {
  AttentionBwdArgs op;
  float* delta;  ///< [batch, heads, length]: sum(dout out)
};

__global__ void sum_deltas(BackwardArgs args) {
  const AttentionBwdArgs& op = args.op;
  const std::int64_t row = row_of_warp();
  if (row >= op.batch * op.heads * op.length) return;
  const std::int64_t t = row % op.length, h = row / op.length % op.heads,
                     b = row / op.length / op.heads;
  const float* const dout = row_at(op.dout, b, t, h);
  const float* const out = row_at(op.out, b, t, h);
  float sum = 0;
  for (std::int64_t i = threadIdx.x % kWarp; i < op.width; i += kWarp) sum += dout[i] * out[i];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) args.delta[row] = sum;
}

/// With P the probabilities and dP = dout v^T: the gradient of q k^T is P (dP - sum(P dP)) scale,
/// and sum(P dP) = sum(dout out).
struct Pair {
  float weight;  ///< the probability, dropped
  float dscore;
};
__device__ Pair pair_of(const BackwardArgs& args, std::int64_t b, std::int64_t h, std::int64_t kh,
                        std::int64_t t, std::int64_t j) {
  const AttentionBwdArgs& op = args.op;
  const std::int64_t row = (b * op.heads + h) * op.length + t;
  const float score = op.scale * dot(row_at(op.q, b, t, h), row_at(op.k, b, j, kh), op.width);
  const float p = expf(score - op.lse[row]);
  const float factor = dropout_factor(op.dropout, b, (h * op.length + t) * op.length + j);
  const float dp = dot(row_at(op.dout, b, t, h), row_at(op.v, b, j, kh), op.width);
  return {p * factor, p * (dp * factor - args.delta[row]) * op.scale};
}

__global__ void attend_bwd_queries(BackwardArgs args) {
  const AttentionBwdArgs& op = args.op;
  const std::int64_t row = row_of_warp();
  if (row >= op.batch * op.heads * op.length) return;
  const std::int64_t t = row % op.length, h = row / op.length % op.heads,
                     b = row / op.length / op.heads;
  const std::int64_t kh = h / (op.heads / op.key_heads), end = t + 1;
  Share dq;
  for (std::int64_t first = first_key(t, op.window); first < end; first += kWarp) {
    const std::int64_t j = first + threadIdx.x % kWarp;
    const float dscore = j < end ? pair_of(args, b, h, kh, t, j).dscore : 0.0f;
    for (std::int64_t l = 0; l < smaller(kWarp, end - first); ++l)
      dq.add(__shfl_sync(~0u, dscore, static_cast<int>(l)), row_at(op.k, b, first + l, kh),
             op.width);
  }
  dq.write(row_at(op.dq, b, t, h), op.width);
}

// A warp a key: its query heads one after the other, the queries that see it in ascending order.
__global__ void attend_bwd_keys(BackwardArgs args) {
  const AttentionBwdArgs& op = args.op;
  const std::int64_t row = row_of_warp();
  if (row >= op.batch * op.key_heads * op.length) return;
  const std::int64_t j = row % op.length, kh = row / op.length % op.key_heads,
                     b = row / op.length / op.key_heads;
  const std::int64_t group = op.heads / op.key_heads;
  const std::int64_t end = op.window > 0 ? smaller(op.length, j + op.window) : op.length;
  Share dk, dv;
  for (std::int64_t h = kh * group; h < (kh + 1) * group; ++h)
    for (std::int64_t first = j; first < end; first += kWarp) {
      const std::int64_t t = first + threadIdx.x % kWarp;
      const Pair pair = t < end ? pair_of(args, b, h, kh, t, j) : Pair{0, 0};
      for (std::int64_t l = 0; l < smaller(kWarp, end - first); ++l) {
        const int lane = static_cast<int>(l);
        dk.add(__shfl_sync(~0u, pair.dscore, lane), row_at(op.q, b, first + l, h), op.width);
        dv.add(__shfl_sync(~0u, pair.weight, lane), row_at(op.dout, b, first + l, h), op.width);
      }
    }
  dk.write(row_at(op.dk, b, j, kh), op.width);
  dv.write(row_at(op.dv, b, j, kh), op.width);
}

LaunchShape shape_for(std::int64_t rows) {
  return {{blocks_for(rows, kWarps)}, {kWarps * kWarp}};
}

void check_width(std::int64_t width) {
  if (width > kMaxWidth)
    throw Error(ErrorKind::kConfig, "attention on CUDA is built for heads of up to 256 dimensions",
                "use more heads, or --device cpu");
}

}  // namespace

void attention_fwd(const AttentionArgs& args, CudaStreamState& stream) {
  check_width(args.width);
  launch(attend, shape_for(args.batch * args.heads * args.queries), stream, args);
}

void attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream) {
  check_width(args.width);
  const std::int64_t rows = args.batch * args.heads * args.length;
  const BackwardArgs with_delta{args, stream.scratch<float>(rows)};
  launch(sum_deltas, shape_for(rows), stream, with_delta);
  launch(attend_bwd_queries, shape_for(rows), stream, with_delta);
  launch(attend_bwd_keys, shape_for(args.batch * args.key_heads * args.length), stream, with_delta);
}

}  // namespace hgt::cuda
