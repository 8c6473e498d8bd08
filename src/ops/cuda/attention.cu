#include <string>

#include "hgtrain/base/kernel_sizes.h"

#include "attention_cudnn.h"
#include "dropout.h"
#include "tiles.h"

// One block per tile of 64 queries (or keys) visits the tiles of keys (or queries) that it sees: no
// T x S matrix in memory, and every sum has a fixed order. In fp32 on the CUDA cores.
//
// Bytes moved: q and out once, k and v once per tile of queries, from the L2 cache if a head's
// fit. The backward computes the scores twice, for dq and for dk and dv, so that no sum crosses
// blocks.

namespace hgt::cuda {
namespace {

/// How many of the 64 rows from `first` on are below `end`.
__device__ int rows_left(std::int64_t first, std::int64_t end) {
  return static_cast<int>(end - first < kTile ? end - first : kTile);
}
__host__ __device__ constexpr std::int64_t tiles_of(std::int64_t rows) {
  return (rows + kTile - 1) / kTile;
}
/// The tiles of the queries: none crosses the end of a run.
__host__ __device__ constexpr std::int64_t tiles_of(const SampleRows& tokens) {
  return tokens.runs * tiles_of(tokens.run_length());
}

/// Up to 64 queries that are neighbours in their sample.
struct QueryTile {
  std::int64_t first;  ///< row of q
  std::int64_t place;  ///< its position among the keys
  int rows;

  __device__ QueryTile(const SampleRows& tokens, std::int64_t tile) {
    const std::int64_t length = tokens.run_length(), tiles = tiles_of(length);
    const std::int64_t run = tile < tiles ? 0 : 1, at = (tile - run * tiles) * kTile;
    first = run * length + at;
    place = tokens.begin_of(run) + at;
    rows = rows_left(at, length);
  }
};

/// The keys that a query sees.
struct Mask {
  std::int64_t queries, window;
  const std::int32_t* position_ids;

  struct Range {
    int begin, end;
    __device__ bool has(int key) const { return key >= begin && key < end; }
  };
  __device__ Range seen(std::int64_t b, const QueryTile& tile, int row) const {
    if (row >= tile.rows) return {0, 0};
    const std::int64_t place = tile.place + row, t = tile.first + row;
    std::int64_t before = place;
    if (window > 0 && before >= window) before = window - 1;
    if (position_ids && before > position_ids[b * queries + t])
      before = position_ids[b * queries + t];
    return {static_cast<int>(place - before), static_cast<int>(place + 1)};
  }
  /// The first key that any of the queries sees.
  __device__ int first_seen(std::int64_t b, const QueryTile& tile) const {
    int begin = seen(b, tile, 0).begin;
    if (position_ids)  // else later queries see later keys
      for (int row = 1; row < tile.rows; ++row) {
        const int other = seen(b, tile, row).begin;
        if (other < begin) begin = other;
      }
    return begin;
  }
};

/// Rows [first, first + 64) of a head, as far as they are below `end`.
template <class Void>
__device__ Void* head_row(const Heads<Void>& x, DType type, std::int64_t b, std::int64_t h,
                          std::int64_t row) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
  return static_cast<Byte*>(x.data) +
         (b * x.batch_stride + h * x.head_stride + row * x.position_stride) *
             (type == DType::kF32 ? 4 : 2);
}
__device__ TileRows tile_of(const Heads<const void>& x, DType type, std::int64_t width,
                            std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t end) {
  return {head_row(x, type, b, h, first), type, x.position_stride, rows_left(first, end),
          static_cast<int>(width)};
}

/// What a block computes: one tile of one head of one sample. Those with the most work start first:
/// the last queries, the first keys.
struct Item {
  std::int64_t tile, head, sample;

  __device__ Item(std::int64_t tiles, std::int64_t heads, bool of_keys = false) {
    const std::int64_t at = blockIdx.x;
    tile = of_keys ? at % tiles : tiles - 1 - at % tiles;
    head = at / tiles % heads;
    sample = at / tiles / heads;
  }
};

/// The place of the weight of the thread's pair (i, j) in a tile.
__device__ int weight_at(const TileThread& thread, int i, int j) {
  return (4 * thread.y + i) * (kTile + kGap) + thread.x + 16 * j;
}

/// Stores the dropout factors of the thread's pairs of a tile in the places of their weights;
/// `element` is that of the tile's first pair, rows are `pitch` apart. One after the other, because
/// together they would take too many registers.
__device__ void draw_factors(const DropoutRow& dropout, std::int64_t element, std::int64_t pitch,
                             TileMemory& memory) {
  const TileThread thread;
#pragma unroll 1
  for (int at = 0; at < 16; ++at) {
    const int i = at / 4, j = at % 4;
    memory.weights[weight_at(thread, i, j)] =
        dropout[element + (4 * thread.y + i) * pitch + thread.x + 16 * j];
  }
}

template <int kChunks>
__global__ void __launch_bounds__(kTileThreads, 1) attend(AttentionArgs args) {
  __shared__ TileMemory memory;
  const TileThread thread;
  const Item item(tiles_of(args.tokens), args.heads);
  const QueryTile tile(args.tokens, item.tile);
  const std::int64_t b = item.sample, h = item.head, kh = h / (args.heads / args.key_heads);
  const Mask mask{args.queries, args.window, args.position_ids};
  const TileRows q =
      tile_of(args.q, args.type, args.width, b, h, tile.first, tile.first + tile.rows);
  const DropoutRow dropout(args.dropout, b);
  Mask::Range seen[4];
  float highest[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    seen[i] = mask.seen(b, tile, 4 * thread.y + i);
    highest[i] = -INFINITY;
    sum[i] = 0;
  }
  TileSums<kChunks> out;
  const std::int64_t end = tile.place + tile.rows;
  for (std::int64_t key = mask.first_seen(b, tile); key < end; key += kTile) {
    float scores[4][4];
    multiply_rows(q, tile_of(args.k, args.type, args.width, b, kh, key, end), memory, scores);
    if (dropout.any())
      draw_factors(dropout, ((args.first_head + h) * args.keys + tile.place) * args.keys + key,
                   args.keys, memory);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float next = highest[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const bool sees = seen[i].has(static_cast<int>(key) + thread.x + 16 * j);
        scores[i][j] = sees ? scores[i][j] * args.scale : -INFINITY;
        next = greater(next, scores[i][j]);
      }
      next = across_max(next);
      const float base = next == -INFINITY ? 0.0f : next;  // avoids infinity - infinity
      const float shrink = expf(highest[i] - base);
      float total = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float p = expf(scores[i][j] - base);
        float& weight = memory.weights[weight_at(thread, i, j)];
        total += p;
        weight = dropout.any() ? p * weight : p;
      }
      sum[i] = sum[i] * shrink + across_sum(total);
      highest[i] = next;
      out.scale_row(i, shrink);
    }
    out.add(tile_of(args.v, args.type, args.width, b, kh, key, end), memory);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 4 * thread.y + i;
    out.scale_row(i, 1.0f / sum[i]);
    if (thread.x == 0 && row < tile.rows)
      args.lse[(b * args.heads + h) * args.queries + tile.first + row] = highest[i] + logf(sum[i]);
  }
  out.write(head_row(args.out, args.type, b, h, tile.first), args.type, args.out.position_stride,
            q.rows, q.width);
}

struct BackwardArgs {
  AttentionBwdArgs op;
  float* delta;  ///< [batch, heads, queries]: sum(dout out)
};

constexpr unsigned kDeltaWarps = 8;  ///< per block, one row each

template <class T>
__global__ void __launch_bounds__(kDeltaWarps* kWarp) sum_deltas(BackwardArgs args) {
  const AttentionBwdArgs& op = args.op;
  const std::int64_t row = std::int64_t{blockIdx.x} * kDeltaWarps + threadIdx.x / kWarp;
  if (row >= op.batch * op.heads * op.queries) return;
  const std::int64_t t = row % op.queries, h = row / op.queries % op.heads,
                     b = row / op.queries / op.heads;
  const T* const dout = static_cast<const T*>(head_row(op.dout, op.type, b, h, t));
  const T* const out = static_cast<const T*>(head_row(op.out, op.type, b, h, t));
  float sum = 0;
  for (std::int64_t i = threadIdx.x % kWarp * kVector<T>; i < op.width; i += kWarp * kVector<T>) {
    const Vector<T> x = read(dout + i, op.width - i), y = read(out + i, op.width - i);
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j) sum += x[j] * y[j];
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) args.delta[row] = sum;
}

/// Multiplies a tile of queries with a tile of keys.
struct BackwardTile {
  std::int64_t b, h, kh;
  QueryTile at;
  std::int64_t key;

  __device__ TileRows queries(const AttentionBwdArgs& op, const Heads<const void>& x) const {
    return tile_of(x, op.type, op.width, b, h, at.first, at.first + at.rows);
  }
  __device__ TileRows keys(const AttentionBwdArgs& op, const Heads<const void>& x) const {
    return tile_of(x, op.type, op.width, b, kh, key, op.keys);
  }
};

/// With P the probabilities and dP = dout v^T: the gradient of q k^T is P (dP - sum(P dP)) scale,
/// and sum(P dP) = sum(dout out). Returns P, after dropout, and that gradient.
__device__ void probabilities(const BackwardArgs& args, const Mask& mask, const BackwardTile& tile,
                              TileMemory& memory, float (&p)[4][4], float (&dscores)[4][4]) {
  const AttentionBwdArgs& op = args.op;
  const TileThread thread;
  multiply_rows(tile.queries(op, op.q), tile.keys(op, op.k), memory, p);
  multiply_rows(tile.queries(op, op.dout), tile.keys(op, op.v), memory, dscores);
  const DropoutRow dropout(op.dropout, tile.b);
  if (dropout.any())
    draw_factors(dropout, ((op.first_head + tile.h) * op.keys + tile.at.place) * op.keys + tile.key,
                 op.keys, memory);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 4 * thread.y + i;
    const std::int64_t t = (tile.b * op.heads + tile.h) * op.queries + tile.at.first + row;
    const bool there = row < tile.at.rows;
    const Mask::Range seen = mask.seen(tile.b, tile.at, row);
    const float lse = there ? op.lse[t] : 0.0f, delta = there ? args.delta[t] : 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t key = tile.key + thread.x + 16 * j;
      const bool sees = seen.has(static_cast<int>(key));
      const float probability = sees ? expf(p[i][j] * op.scale - lse) : 0.0f;
      const float factor = dropout.any() ? memory.weights[weight_at(thread, i, j)] : 1.0f;
      p[i][j] = probability * factor;
      dscores[i][j] = probability * (dscores[i][j] * factor - delta) * op.scale;
    }
  }
}

template <int kChunks>
__global__ void __launch_bounds__(kTileThreads, 1) attend_bwd_queries(BackwardArgs args) {
  __shared__ TileMemory memory;
  const AttentionBwdArgs& op = args.op;
  const TileThread thread;
  const Item item(tiles_of(op.tokens), op.heads);
  const QueryTile at(op.tokens, item.tile);
  const std::int64_t b = item.sample, h = item.head, kh = h / (op.heads / op.key_heads);
  const Mask mask{op.queries, op.window, op.position_ids};
  TileSums<kChunks> dq;
  for (std::int64_t key = mask.first_seen(b, at); key < at.place + at.rows; key += kTile) {
    const BackwardTile tile{b, h, kh, at, key};
    float p[4][4], dscores[4][4];
    probabilities(args, mask, tile, memory, p, dscores);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) memory.weights[weight_at(thread, i, j)] = dscores[i][j];
    dq.add(tile.keys(op, op.k), memory);
  }
  dq.write(head_row(op.dq, op.type, b, h, at.first), op.type, op.dq.position_stride, at.rows,
           static_cast<int>(op.width));
}

/// The transpose of the threads' values.
__device__ void write_transposed(const float (&x)[4][4], TileMemory& memory) {
  const TileThread thread;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    *reinterpret_cast<float4*>(memory.weights + (thread.x + 16 * j) * (kTile + kGap) +
                               4 * thread.y) = make_float4(x[0][j], x[1][j], x[2][j], x[3][j]);
}

// The query heads of a key head come one after the other, and the queries that see the keys in
// ascending order.
template <int kChunks>
__global__ void __launch_bounds__(kTileThreads, 1) attend_bwd_keys(BackwardArgs args) {
  __shared__ TileMemory memory;
  const AttentionBwdArgs& op = args.op;
  const Item item(tiles_of(op.keys), op.key_heads, true);
  const std::int64_t b = item.sample, kh = item.head, group = op.heads / op.key_heads;
  const std::int64_t key = item.tile * kTile;
  const Mask mask{op.queries, op.window, op.position_ids};
  TileSums<kChunks> dk, dv;
  for (std::int64_t h = kh * group; h < (kh + 1) * group; ++h)
    for (std::int64_t of_queries = 0; of_queries < tiles_of(op.tokens); ++of_queries) {
      const QueryTile at(op.tokens, of_queries);
      if (at.place + at.rows <= key || mask.first_seen(b, at) >= key + kTile) continue;
      const BackwardTile tile{b, h, kh, at, key};
      float p[4][4], dscores[4][4];
      probabilities(args, mask, tile, memory, p, dscores);
      __syncthreads();  // all threads have read the factors
      write_transposed(p, memory);
      dv.add(tile.queries(op, op.dout), memory);
      __syncthreads();  // all threads have read these weights
      write_transposed(dscores, memory);
      dk.add(tile.queries(op, op.q), memory);
    }
  const int rows = rows_left(key, op.keys), width = static_cast<int>(op.width);
  dk.write(head_row(op.dk, op.type, b, kh, key), op.type, op.dk.position_stride, rows, width);
  dv.write(head_row(op.dv, op.type, b, kh, key), op.type, op.dv.position_stride, rows, width);
}

LaunchShape shape_for(std::int64_t tiles, std::int64_t heads_and_samples) {
  return {{blocks_for(tiles * heads_and_samples, 1)}, {kTileThreads}};
}

/// Calls fn with a head's width in units of 64 dimensions, as a type.
template <class Fn>
void visit_chunks(std::int64_t width, const Fn& fn) {
  if (width <= kTile) return fn(std::integral_constant<int, 1>());
  if (width <= 2 * kTile) return fn(std::integral_constant<int, 2>());
  if (width <= 4 * kTile) return fn(std::integral_constant<int, 4>());
  static_assert(kMaxHeadDim == 4 * kTile);
  throw Error(
      ErrorKind::kConfig,
      "attention on CUDA supports heads of up to " + std::to_string(kMaxHeadDim) + " dimensions",
      "use more heads, or --device cpu");
}

}  // namespace

void attention_fwd(const AttentionArgs& args, CudaStreamState& stream) {
  if (cudnn::attention_fwd(args, stream)) return;
  visit_chunks(args.width, [&](auto chunks) {
    launch(attend<chunks>, shape_for(tiles_of(args.tokens), args.heads * args.batch), stream, args);
  });
}

void attention_bwd(const AttentionBwdArgs& args, CudaStreamState& stream) {
  if (cudnn::attention_bwd(args, stream)) return;
  const std::int64_t rows = args.batch * args.heads * args.queries;
  const BackwardArgs with_delta{args, stream.scratch<float>(rows)};
  visit_element(args.type, [&]<class T>(T) {
    launch(sum_deltas<T>, {{blocks_for(rows, kDeltaWarps)}, {kDeltaWarps * kWarp}}, stream,
           with_delta);
  });
  visit_chunks(args.width, [&](auto chunks) {
    launch(attend_bwd_queries<chunks>, shape_for(tiles_of(args.tokens), args.heads * args.batch),
           stream, with_delta);
    launch(attend_bwd_keys<chunks>, shape_for(tiles_of(args.keys), args.key_heads * args.batch),
           stream, with_delta);
  });
}

}  // namespace hgt::cuda
