#pragma once

#include <algorithm>
#include <cstdint>

#include "hgtrain/base/element.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/ops/attention.h"
#include "hgtrain/tensor/tensor.h"

#include "rows.h"
#include "tile_product.h"

// After Dao 2023, arXiv:2307.08691: scores exist by tiles of 64 queries and 64 keys. The matrices
// of a tile are rows of `ld` floats, padded with zeros to whole vectors and to 64 rows.

/// The building blocks of attention's forward and backward on the CPU.
namespace hgt::cpu {

inline constexpr std::int64_t kTile = kAttentionTile;
inline constexpr std::int64_t kRowsAhead = 16;

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
        row_stride(x.stride(1)),
        rows(x.size(1)),
        width(x.size(3)) {}

  /// Rows [first, first + 64) as fp32, zero beyond the last row.
  void read(std::int64_t first, std::int64_t ld, float* out) const {
    for (std::int64_t r = 0; r < kTile; ++r) {
      float* const to = out + r * ld;
      const std::int64_t seen = first + r < rows ? width : 0;
      const T* const from = data + (first + r) * row_stride;
      fetch<2>(from + 2 * kRowsAhead * row_stride, seen);
#pragma omp simd
      for (std::int64_t i = 0; i < seen; ++i) to[i] = from[i];
      std::fill(to + seen, to + ld, 0.0f);
    }
  }
  void write(std::int64_t t, float factor, const float* from) const {
    T* const to = data + t * row_stride;
    fetch(to + kRowsAhead * row_stride, width);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) to[i] = factor * from[i];
  }
  float dot(std::int64_t t, const float* other) const {
    const T* const row = data + t * row_stride;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < width; ++i) sum += row[i] * other[i];
    return sum;
  }

  void add_to(float* sum, float factor, std::int64_t t) const {
    const T* const row = data + t * row_stride;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) sum[i] += factor * row[i];
  }

  T* data;
  std::int64_t row_stride, rows, width;
};

/// Query rows [first, first + rows) and the keys [begin, end) that any of them sees.
struct Block {
  /// Up to 64 rows, all in the same of the queries' runs, as `run` counts them.
  Block(std::int64_t first_row, std::int64_t run, const AttentionOptions& options,
        std::int64_t sample)
      : first(first_row),
        rows(std::min(kTile, (run + 1) * options.queries.run_length() - first_row)),
        shift(options.queries.begin_of(run) - run * options.queries.run_length()),
        window(options.window),
        positions(options.position_ids
                      ? options.position_ids.data<std::int32_t>() + sample * options.queries.length
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

  std::int64_t first, rows;
  std::int64_t shift;  ///< from a row to its position
  std::int64_t window;
  const std::int32_t* positions;  ///< of the sample's queries in their documents, or null
  std::int64_t begin, end;
};

/// Calls fn(block) for all queries of a sample, in ascending order.
template <class Fn>
void for_each_block(const AttentionOptions& options, std::int64_t sample, const Fn& fn) {
  const std::int64_t length = options.queries.run_length();
  for (std::int64_t run = 0; run < options.queries.runs; ++run)
    for (std::int64_t first = run * length; first < (run + 1) * length; first += kTile)
      fn(Block(first, run, options, sample));
}

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
  /// Rows [r, r + count) see no keys but those before start + columns(r, count).
  std::int64_t columns(std::int64_t r, std::int64_t count) const {
    const std::int64_t last = std::min(r + count, block.rows) - 1;
    return within(block.seen_to(block.first + last) - start);
  }
  /// The first row that sees key start + j.
  std::int64_t first_row(std::int64_t j) const {
    return std::clamp<std::int64_t>(start + j - block.shift - block.first, 0, block.rows);
  }
  std::int64_t keys() const { return within(block.end - start); }
  /// The number of rows in whole panels of `unit` rows; clear_beyond clears those beyond the last.
  std::int64_t panel_rows(std::int64_t unit) const { return round_up(block.rows, unit); }
  void clear_beyond(float* scores, std::int64_t unit) const {
    std::fill(scores + block.rows * kTile, scores + panel_rows(unit) * kTile, 0.0f);
  }

 private:
  static std::int64_t within(std::int64_t j) { return std::clamp<std::int64_t>(j, 0, kTile); }
};

template <class Fn>
void for_each_tile(const Block& block, const Fn& fn) {
  for (std::int64_t start = block.begin / kTile * kTile; start < block.end; start += kTile)
    fn(Tile{block, start});
}

/// Transposes the units of a tile's rows [64, ld]: [ld, 64].
inline void transpose(const float* x, std::int64_t ld, float* out) {
  for (std::int64_t r = 0; r < kTile; r += kVectorFloats)
    for (std::int64_t c = 0; c < ld; c += kVectorFloats)
      transpose_square({x + r * ld + c, ld}, {out + c * kTile + r, kTile});
}

/// The index of the tile's first key for row r among the sample's dropout elements.
inline std::int64_t dropout_element(const Tile& tile, std::int64_t h, std::int64_t r,
                                    std::int64_t keys) {
  return (h * keys + tile.block.first + tile.block.shift + r) * keys + tile.start;
}

inline void fill_unseen(const Tile::Seen& seen, float value, float* row) {
  std::fill(row, row + seen.from, value);
  std::fill(row + seen.to, row + kTile, value);
}

/// Reads keys or values by tiles: as the right factor of products that sum over keys and, by
/// columns, of products that sum over the width. One of the two may be omitted. `tile` is scratch.
template <class Unit, class T>
void read_keys(const Head<T>& head, std::int64_t ld, float* tile, float* along, float* transposed) {
  for (std::int64_t start = 0; start < head.rows; start += kTile) {
    float* const rows = along ? along + start * ld : tile;
    head.read(start, ld, rows);
    if (transposed) transpose(Unit::across(rows, kTile, ld, tile), ld, transposed + start * ld);
    if (along) Unit::along(rows, kTile, ld, rows);
  }
}

/// The operands of one item of the forward or the backward.
struct Shape {
  Shape(const Tensor& q, const Tensor& k)
      : queries(q.size(1)),
        heads(q.size(2)),
        group(q.size(2) / k.size(2)),
        keys(k.size(1)),
        width(q.size(3)),
        ld(round_up(width, kAttentionVector)),
        head_floats(round_up(keys, kTile) * ld) {}
  std::int64_t queries, heads, group, keys, width, ld;
  std::int64_t head_floats;  ///< size of a matrix of all keys
};

/// The head of x that query head `item` uses; items count the heads of all samples.
template <class T>
Head<T> head_of(const Tensor& x, const Shape& shape, std::int64_t item) {
  return {x, item / shape.heads, item % shape.heads * x.size(2) / shape.heads};
}

}  // namespace hgt::cpu
