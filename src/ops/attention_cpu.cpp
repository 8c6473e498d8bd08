#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpu_kernels.h"
#include "dropout_factors.h"
#include "element.h"
#include "tile_product.h"
#include "vector_math.h"

// After Dao 2023, arXiv:2307.08691: scores exist by tiles of 64 queries and 64 keys. The matrices
// of a tile are rows of `ld` floats, padded with zeros to whole vectors and to 64 rows.

namespace hgt::cpu {
namespace {

constexpr std::int64_t kTile = 64, kWidthUnit = 16;
constexpr std::int64_t kLineBytes = 64, kRowsAhead = 16;
constexpr std::int64_t kFewQueries = 8;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

/// What heads of T are multiplied as: bf16 by the CPU's instructions where it has them, else fp32.
#if defined(__AVX512BF16__)
template <class T>
using UnitOf = std::conditional_t<std::is_same_v<T, BFloat16>, BFloat16Pair, FloatUnit>;
#else
template <class T>
using UnitOf = FloatUnit;
#endif

/// Memory of a thread, handed out piece by piece.
struct Scratch {
  float* take(std::int64_t floats) {
    next += floats;
    return next - floats;
  }
  float* next;
};

/// One head of one sample.
template <class T>
struct Head {
  Head(const Tensor& x, std::int64_t b, std::int64_t h)
      : data(x.data<T>() + b * x.stride(0) + h * x.stride(2)),
        to_next(x.stride(1)),
        rows(x.size(1)),
        width(x.size(3)) {}

  /// Rows [first, first + 64) as fp32, zero where there are none.
  void read(std::int64_t first, std::int64_t ld, float* out) const {
    for (std::int64_t r = 0; r < kTile; ++r) {
      float* const to = out + r * ld;
      const std::int64_t seen = first + r < rows ? width : 0;
      const T* const from = data + (first + r) * to_next;
      for (std::int64_t i = 0; i < seen; i += kLineBytes / sizeof(T))
        __builtin_prefetch(from + kRowsAhead * to_next + i);
#pragma omp simd
      for (std::int64_t i = 0; i < seen; ++i) to[i] = from[i];
      std::fill(to + seen, to + ld, 0.0f);
    }
  }
  void write(std::int64_t t, float factor, const float* from) const {
    T* const to = data + t * to_next;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) to[i] = factor * from[i];
  }
  float dot(std::int64_t t, const float* other) const {
    const T* const row = data + t * to_next;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += row[i] * other[i];
    return sum;
  }

  void add_to(float* sum, float factor, std::int64_t t) const {
    const T* const row = data + t * to_next;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) sum[i] += factor * row[i];
  }

  T* data;
  std::int64_t to_next, rows, width;
};

/// Query rows [first, first + rows) and the keys [begin, end) that any of them sees.
struct Block {
  Block(std::int64_t first_row, std::int64_t queries, std::int64_t keys,
        const AttentionOptions& options, std::int64_t sample)
      : first(first_row),
        rows(std::min(kTile, queries - first_row)),
        shift(keys - queries),
        window(options.window),
        positions(options.position_ids
                      ? options.position_ids.data<std::int32_t>() + sample * queries
                      : nullptr),
        begin(seen_from(first)),
        end(seen_to(first + rows - 1)) {
    for (std::int64_t t = first; t < first + rows; ++t) begin = std::min(begin, seen_from(t));
  }
  /// Query row t sees keys [seen_from(t), seen_to(t)).
  std::int64_t seen_from(std::int64_t t) const {
    const std::int64_t before = window > 0 ? std::min(t + shift, window - 1) : t + shift;
    return t + shift - (positions ? std::min<std::int64_t>(before, positions[t]) : before);
  }
  std::int64_t seen_to(std::int64_t t) const { return t + shift + 1; }

  std::int64_t first, rows, shift, window;
  const std::int32_t* positions;  ///< of the sample's queries in their documents, or null
  std::int64_t begin, end;
};

/// The block's queries and the keys [start, start + 64).
struct Tile {
  const Block& block;
  std::int64_t start;

  /// Row r of the block sees keys start + [from, to).
  struct Seen {
    std::int64_t from, to;
  };
  Seen seen(std::int64_t r) const {
    const std::int64_t t = block.first + r;
    return {within(block.seen_from(t) - start), within(block.seen_to(t) - start)};
  }
  /// Keys before start + columns(r) are all that rows [r, r + kPanelRows) see.
  std::int64_t columns(std::int64_t r) const {
    const std::int64_t last = std::min(r + kPanelRows, block.rows) - 1;
    return within(block.seen_to(block.first + last) - start);
  }
  /// The first row that sees key start + j.
  std::int64_t first_row(std::int64_t j) const {
    return std::clamp<std::int64_t>(start + j - block.shift - block.first, 0, block.rows);
  }
  std::int64_t keys() const { return within(block.end - start); }
  /// Rows of whole panels; `scores` is cleared where they are beyond the last.
  std::int64_t panel_rows() const { return round_up(block.rows, kPanelRows); }
  void clear_beyond(float* scores) const {
    std::fill(scores + block.rows * kTile, scores + panel_rows() * kTile, 0.0f);
  }

 private:
  static std::int64_t within(std::int64_t j) { return std::clamp<std::int64_t>(j, 0, kTile); }
};

template <class Fn>
void for_each_tile(const Block& block, const Fn& fn) {
  for (std::int64_t start = block.begin / kTile * kTile; start < block.end; start += kTile)
    fn(Tile{block, start});
}

/// The products of a tile; x and y have rows of `ld` floats, the first `width` of them in use.
template <class Unit>
struct Products {
  std::int64_t width, ld;

  static std::int64_t units(std::int64_t elements) {
    return round_up(elements, Unit::kElements) / Unit::kElements;
  }

  /// scores[rows, keys] = x[rows] y[keys]^T
  void scores(const Tile& tile, const float* x, const float* y_transposed, float* out) const {
    for (std::int64_t r = 0; r < tile.block.rows; r += kPanelRows)
      multiply<Unit>(tile.columns(r), units(width), {x + r * ld, ld, 1},
                     {y_transposed + tile.start * ld, kTile}, false, {out + r * kTile, kTile});
  }
  /// out[rows] += weights[rows, keys] y[keys]
  void add_to_rows(const Tile& tile, const float* weights, const float* y, float* out) const {
    for (std::int64_t r = 0; r < tile.block.rows; r += kPanelRows)
      multiply<Unit>(ld, units(tile.columns(r)), {weights + r * kTile, kTile, 1},
                     {y + tile.start * ld, ld}, true, {out + r * ld, ld});
  }
  /// out[keys] += weights[rows, keys]^T x[rows]
  void add_to_keys(const Tile& tile, const float* weights, const float* x, float* out) const {
    for (std::int64_t j = 0; j < tile.keys(); j += kPanelRows) {
      const std::int64_t skipped = tile.first_row(j) / Unit::kElements;
      multiply<Unit>(ld, units(tile.block.rows) - skipped,
                     {weights + skipped * kTile + j, 1, kTile}, {x + skipped * ld, ld}, true,
                     {out + (tile.start + j) * ld, ld});
    }
  }
};

/// The units of a tile's rows [64, ld] by columns: [ld, 64].
void transpose(const float* x, std::int64_t ld, float* out) {
  for (std::int64_t r = 0; r < kTile; r += kVectorFloats)
    for (std::int64_t c = 0; c < ld; c += kVectorFloats)
      transpose_square({x + r * ld + c, ld}, {out + c * kTile + r, kTile});
}

/// Index of the tile's first key for row r among the sample's dropout elements.
std::int64_t dropout_element(const Tile& tile, std::int64_t h, std::int64_t r,
                             std::int64_t queries) {
  return (h * queries + tile.block.first + r) * queries + tile.start;
}

void fill_unseen(const Tile::Seen& seen, float value, float* row) {
  std::fill(row, row + seen.from, value);
  std::fill(row + seen.to, row + kTile, value);
}

/// Reads keys or values by tiles: as the right factor of products that sum over keys, and by
/// columns, of such that sum over the width. One of the two may be left out. `tile` is scratch.
template <class Unit, class T>
void read_keys(const Head<T>& head, std::int64_t ld, float* tile, float* along, float* transposed) {
  for (std::int64_t start = 0; start < head.rows; start += kTile) {
    float* const rows = along ? along + start * ld : tile;
    head.read(start, ld, rows);
    if (transposed) transpose(Unit::across(rows, kTile, ld, tile), ld, transposed + start * ld);
    if (along) Unit::along(rows, kTile, ld, rows);
  }
}

/// What an item of the forward or the backward works on.
struct Shape {
  Shape(const Tensor& q, const Tensor& k)
      : queries(q.size(1)),
        heads(q.size(2)),
        group(q.size(2) / k.size(2)),
        keys(k.size(1)),
        width(q.size(3)),
        ld(round_up(width, kWidthUnit)),
        head_floats(round_up(keys, kTile) * ld) {}
  std::int64_t queries, heads, group, keys, width, ld;
  std::int64_t head_floats;  ///< of a matrix of all keys
};

}  // namespace

namespace {

/// The forward of a thread.
template <class T>
class Forward {
 public:
  Forward(const Shape& shape, const AttentionOptions& options, float* scratch)
      : s_(shape),
        options_(options),
        products_{shape.width, shape.ld},
        exact_products_{shape.width, shape.ld} {
    Scratch from{scratch};
    k_ = from.take(s_.head_floats);
    v_ = from.take(s_.head_floats);
    q_ = from.take(kTile * s_.ld);
    out_ = from.take(kTile * s_.ld);
    scores_ = from.take(kTile * kTile);
    factors_ = from.take(kTile);
    highest_ = from.take(kTile);
    sums_ = from.take(kTile);
  }
  static std::int64_t floats(const Shape& s) {
    return 2 * (s.head_floats + kTile * s.ld) + kTile * (kTile + 3);
  }

  void run(const Head<T>& q, const Head<T>& k, const Head<T>& v, std::int64_t b, std::int64_t h,
           const Head<T>& out, float* lse) {
    if (s_.queries <= kFewQueries && s_.queries < s_.keys && options_.dropout.probability == 0)
      return run_rows(q, k, v, b, out, lse);
    read_keys<Unit>(k, s_.ld, out_, nullptr, k_);
    read_keys<FloatUnit>(v, s_.ld, out_, v_, nullptr);
    for (std::int64_t first = 0; first < s_.queries; first += kTile) {
      const Block block(first, s_.queries, s_.keys, options_, b);
      q.read(first, s_.ld, q_);
      Unit::across(q_, kTile, s_.ld, q_);
      std::fill(out_, out_ + kTile * s_.ld, 0.0f);
      std::fill(highest_, highest_ + kTile, kLowest);
      std::fill(sums_, sums_ + kTile, 0.0f);
      for_each_tile(block, [&](const Tile& tile) {
        products_.scores(tile, q_, k_, scores_);
        for (std::int64_t r = 0; r < block.rows; ++r) exponentiate(tile, b, h, r);
        tile.clear_beyond(scores_);
        exact_products_.add_to_rows(tile, scores_, v_, out_);
      });
      for (std::int64_t r = 0; r < block.rows; ++r) {
        out.write(first + r, 1.0f / sums_[r], out_ + r * s_.ld);
        lse[first + r] = highest_[r] + std::log(sums_[r]);
      }
    }
  }

 private:
  using Unit = UnitOf<T>;

  /// A few queries behind many keys, as in generation: laying out all keys would not pay.
  void run_rows(const Head<T>& q, const Head<T>& k, const Head<T>& v, std::int64_t b,
                const Head<T>& out, float* lse) {
    const Block block(0, s_.queries, s_.keys, options_, b);
    q.read(0, s_.ld, q_);
    for (std::int64_t t = 0; t < s_.queries; ++t) {
      const std::int64_t from = block.seen_from(t), to = block.seen_to(t);
      float* const scores = k_;
      float highest = kLowest, sum = 0;
      for (std::int64_t j = from; j < to; ++j) {
        scores[j] = k.dot(j, q_ + t * s_.ld) * options_.scale;
        highest = std::max(highest, scores[j]);
      }
      std::fill(out_, out_ + s_.ld, 0.0f);
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = from; j < to; ++j) {
        scores[j] = exp_f32(scores[j] - highest);
        sum += scores[j];
      }
      for (std::int64_t j = from; j < to; ++j) v.add_to(out_, scores[j], j);
      out.write(t, 1.0f / sum, out_);
      lse[t] = highest + std::log(sum);
    }
  }

  /// Row r of the scores becomes exp(score - the highest so far) where seen and 0 elsewhere; what
  /// was summed under a lower highest is made smaller.
  void exponentiate(const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t r) {
    const Tile::Seen seen = tile.seen(r);
    float* const row = scores_ + r * kTile;
    if (seen.from >= seen.to) return std::fill(row, row + kTile, 0.0f);
    fill_unseen(seen, kLowest, row);
    const float scale = options_.scale;
    float highest = highest_[r];
#pragma omp simd reduction(max : highest)
    for (std::int64_t j = 0; j < kTile; ++j) highest = std::max(highest, row[j] * scale);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < kTile; ++j) {
      row[j] = exp_f32(row[j] * scale - highest);
      sum += row[j];
    }
    fill_unseen(seen, 0, row);
    if (highest > highest_[r]) {
      const float factor = exp_f32(highest_[r] - highest);
      sums_[r] *= factor;
      float* const out = out_ + r * s_.ld;
#pragma omp simd
      for (std::int64_t i = 0; i < s_.ld; ++i) out[i] *= factor;
      highest_[r] = highest;
    }
    sums_[r] += sum;
    if (options_.dropout.probability == 0) return;
    dropout_factors(options_.dropout, b, dropout_element(tile, h, r, s_.queries), kTile, factors_);
#pragma omp simd
    for (std::int64_t j = 0; j < kTile; ++j) row[j] *= factors_[j];
  }

  const Shape& s_;
  const AttentionOptions& options_;
  Products<Unit> products_;
  Products<FloatUnit> exact_products_;  ///< of probabilities, which rounding would make inexact
  float *k_, *v_;                       ///< of all keys: transposed; along
  float *q_, *out_;                     ///< of a block
  float* scores_;                       ///< of a tile
  float* factors_;                      ///< of a row
  float *highest_, *sums_;  ///< by row of a block: of the scores so far, and of their exponentials
};

}  // namespace

void attention_fwd(const Tensor& q, const Tensor& k, const Tensor& v,
                   const AttentionOptions& options, const Tensor& out, const Tensor& lse,
                   ThreadPool& pool) {
  const Shape shape(q, k);
  visit_element(q.dtype(), [&]<class T>(T) {
    pool.parallel_for(
        q.size(0) * shape.heads, [&](std::int64_t begin, std::int64_t end, int thread) {
          Forward<T> forward(shape, options, pool.scratch(thread, Forward<T>::floats(shape)));
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t b = item / shape.heads, h = item % shape.heads;
            const std::int64_t kh = h / shape.group;
            forward.run(Head<T>(q, b, h), Head<T>(k, b, kh), Head<T>(v, b, kh), b, h,
                        Head<T>(out, b, h), lse.data<float>() + item * shape.queries);
          }
        });
  });
}

namespace {

/// The backward of a thread: by key head, whose query heads add to the same dk and dv.
template <class T>
class Backward {
 public:
  Backward(const Shape& shape, const AttentionOptions& options, float* scratch)
      : s_(shape), options_(options), products_{shape.width, shape.ld} {
    Scratch from{scratch};
    for (float** const of_keys : {&k_transposed_, &k_, &v_, &dk_, &dv_})
      *of_keys = from.take(s_.head_floats);
    for (float** const of_block : {&q_, &dout_, &dq_, &pairs_[0], &pairs_[1]})
      *of_block = from.take(kTile * s_.ld);
    for (float** const of_tile : {&p_, &ds_, &ds_along_}) *of_tile = from.take(kTile * kTile);
    dots_ = from.take(kTile);
    factors_ = from.take(kTile);
  }
  static std::int64_t floats(const Shape& s) {
    return 5 * (s.head_floats + kTile * s.ld) + kTile * (3 * kTile + 2);
  }

  void begin(const Head<T>& k, const Head<T>& v) {
    read_keys<Unit>(k, s_.ld, dq_, k_, k_transposed_);
    read_keys<Unit>(v, s_.ld, dq_, nullptr, v_);
    for (float* const sums : {dk_, dv_}) std::fill(sums, sums + s_.head_floats, 0.0f);
  }
  /// Writes dq, adds to dk and dv.
  void run(const Head<T>& q, const Head<T>& out, const Head<T>& dout, const float* lse,
           std::int64_t b, std::int64_t h, const Head<T>& dq) {
    for (std::int64_t first = 0; first < s_.queries; first += kTile) {
      const Block block(first, s_.queries, s_.keys, options_, b);
      read_block(block, q, out, dout);
      for_each_tile(block, [&](const Tile& tile) {
        products_.scores(tile, q_, k_transposed_, p_);
        products_.scores(tile, dout_, v_, ds_);
        for (std::int64_t r = 0; r < block.rows; ++r) row_backward(tile, b, h, r, lse[first + r]);
        for (float* const scores : {p_, ds_}) tile.clear_beyond(scores);
        add_gradients(tile);
      });
      for (std::int64_t r = 0; r < block.rows; ++r) dq.write(first + r, 1, dq_ + r * s_.ld);
    }
  }
  void finish(const Head<T>& dk, const Head<T>& dv) const {
    for (std::int64_t t = 0; t < s_.keys; ++t) {
      dk.write(t, 1, dk_ + t * s_.ld);
      dv.write(t, 1, dv_ + t * s_.ld);
    }
  }

 private:
  using Unit = UnitOf<T>;

  void read_block(const Block& block, const Head<T>& q, const Head<T>& out, const Head<T>& dout) {
    q.read(block.first, s_.ld, q_);
    dout.read(block.first, s_.ld, dout_);
    for (std::int64_t r = 0; r < block.rows; ++r)
      dots_[r] = out.dot(block.first + r, dout_ + r * s_.ld);
    q_along_ = Unit::along(q_, kTile, s_.ld, pairs_[0]);
    dout_along_ = Unit::along(dout_, kTile, s_.ld, pairs_[1]);
    for (float* const rows : {q_, dout_}) Unit::across(rows, kTile, s_.ld, rows);
    std::fill(dq_, dq_ + kTile * s_.ld, 0.0f);
  }

  /// With P the probabilities and dP = dout v^T: dscore = P (dP - sum(P dP)), and sum(P dP) =
  /// sum(dout out). Leaves P in `p_` (dropped, for dv) and the gradient of q k^T in `ds_`.
  void row_backward(const Tile& tile, std::int64_t b, std::int64_t h, std::int64_t r,
                    float log_sum) {
    float* const p = p_ + r * kTile;
    float* const ds = ds_ + r * kTile;
    const float scale = options_.scale, dot = dots_[r];
    if (options_.dropout.probability > 0) {
      dropout_factors(options_.dropout, b, dropout_element(tile, h, r, s_.queries), kTile,
                      factors_);
#pragma omp simd
      for (std::int64_t j = 0; j < kTile; ++j) {
        const float probability = exp_f32(p[j] * scale - log_sum);
        p[j] = probability * factors_[j];
        ds[j] = probability * (ds[j] * factors_[j] - dot) * scale;
      }
    } else {
#pragma omp simd
      for (std::int64_t j = 0; j < kTile; ++j) {
        p[j] = exp_f32(p[j] * scale - log_sum);
        ds[j] = p[j] * (ds[j] - dot) * scale;
      }
    }
    for (float* const row : {p, ds}) fill_unseen(tile.seen(r), 0, row);
  }

  void add_gradients(const Tile& tile) {
    const std::int64_t rows = tile.panel_rows();
    products_.add_to_keys(tile, Unit::along(p_, rows, kTile, p_), dout_along_, dv_);
    products_.add_to_keys(tile, Unit::along(ds_, rows, kTile, ds_along_), q_along_, dk_);
    products_.add_to_rows(tile, Unit::across(ds_, rows, kTile, ds_), k_, dq_);
  }

  const Shape& s_;
  const AttentionOptions& options_;
  Products<Unit> products_;
  float *k_transposed_, *k_, *v_, *dk_, *dv_;  ///< of all keys
  float *q_, *dout_, *dq_, *pairs_[2];         ///< of a block
  const float *q_along_, *dout_along_;
  float *p_, *ds_, *ds_along_;  ///< of a tile
  float *dots_, *factors_;      ///< by row of a block; of a row
};

}  // namespace

void attention_bwd(const Tensor& dout, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse, const AttentionOptions& options,
                   const Tensor& dq, const Tensor& dk, const Tensor& dv, ThreadPool& pool) {
  const Shape shape(q, k);
  const std::int64_t key_heads = k.size(2);
  visit_element(q.dtype(), [&]<class T>(T) {
    pool.parallel_for(q.size(0) * key_heads, [&](std::int64_t begin, std::int64_t end, int thread) {
      Backward<T> backward(shape, options, pool.scratch(thread, Backward<T>::floats(shape)));
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t b = item / key_heads, kh = item % key_heads;
        backward.begin(Head<T>(k, b, kh), Head<T>(v, b, kh));
        for (std::int64_t h = kh * shape.group; h < (kh + 1) * shape.group; ++h)
          backward.run(Head<T>(q, b, h), Head<T>(out, b, h), Head<T>(dout, b, h),
                       lse.data<float>() + (b * shape.heads + h) * shape.queries, b, h,
                       Head<T>(dq, b, h));
        backward.finish(Head<T>(dk, b, kh), Head<T>(dv, b, kh));
      }
    });
  });
}

}  // namespace hgt::cpu
