#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hgtrain/base/element.h"
#include "hgtrain/base/kernel_sizes.h"

#include "attention_tiles.h"
#include "products.h"
#include "rows.h"
#include "tile_product.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)
#define HGT_AMX_ATTENTION
#include "amx.h"
#endif

/// The products of attention's tiles, in fp32, bf16, or bf16 with AMX.
namespace hgt::cpu {

/// As many rows are fetched per panel as memory delivers while it is computed.
inline constexpr int kRowsPerPanel = 3, kRowsPerAmxPanel = 8;

/// Fetches rows of heads into the L2 cache, some at a time, while a thread computes on other heads.
/// The rows are far apart, so the CPU does not fetch them by itself.
class RowFetcher {
 public:
  /// Forgets the rows that have not been fetched yet; then there is room for kMaxHeads.
  void clear() { size_ = at_ = 0; }
  template <class T>
  void add(const Head<T>& head) {
    heads_[size_++] = {reinterpret_cast<const std::byte*>(head.data),
                       head.row_stride * std::int64_t{sizeof(T)}, head.rows,
                       head.width * std::int64_t{sizeof(T)}};
  }
  void fetch(int rows) {
    for (; rows > 0 && at_ < size_; --rows) {
      Rows& head = heads_[at_];
      hgt::fetch<2>(head.next, head.bytes);
      head.next += head.stride;
      if (--head.left == 0) ++at_;
    }
  }

 private:
  struct Rows {
    const std::byte* next;
    std::int64_t stride, left, bytes;
  };
  static constexpr std::size_t kMaxHeads = 8;  ///< as many as the backward pass adds
  std::array<Rows, kMaxHeads> heads_;
  std::size_t size_ = 0, at_ = 0;
};

#ifdef HGT_AMX_ATTENTION
/// Pairs that AMX multiplies.
struct BFloat16Amx : BFloat16Pair {};
#endif

/// The products of a tile; x and y have rows of `ld` floats, the first `width` of them in use.
/// Meanwhile, rows are fetched that the thread will need next.
template <class Unit>
struct Products {
  /// Panels have this many rows.
  static constexpr std::int64_t kRowUnit = kPanelRows;
  /// In which probabilities are multiplied: rounding them to bf16 would make the result less exact.
  using ProbabilityUnit = FloatUnit;
  /// What a thread must hold while it computes products.
  struct Registers {};

  std::int64_t width, ld;
  RowFetcher& fetcher;

  static std::int64_t units(std::int64_t elements) {
    return round_up(elements, Unit::kElements) / Unit::kElements;
  }

  /// scores[rows, keys] = x[rows] y[keys]^T
  void scores(const Tile& tile, const float* x, const float* y_transposed, float* out) const {
    for (std::int64_t r = 0; r < tile.block.rows; r += kPanelRows)
      multiply(tile.columns(r, kPanelRows), units(width), {x + r * ld, ld, 1},
               {y_transposed + tile.start * ld, kTile}, false, {out + r * kTile, kTile});
  }
  /// out[rows] += weights[rows, keys] y[keys]
  void add_to_rows(const Tile& tile, const float* weights, const float* y, float* out) const {
    for (std::int64_t r = 0; r < tile.block.rows; r += kPanelRows)
      multiply(ld, units(tile.columns(r, kPanelRows)), {weights + r * kTile, kTile, 1},
               {y + tile.start * ld, ld}, true, {out + r * ld, ld});
  }
  /// out[keys] += weights[rows, keys]^T x[rows]
  void add_to_keys(const Tile& tile, const float* weights, const float* x, float* out) const {
    for (std::int64_t j = 0; j < tile.keys(); j += kPanelRows) {
      const std::int64_t skipped = tile.first_row(j) / Unit::kElements;
      multiply(ld, units(tile.block.rows) - skipped, {weights + skipped * kTile + j, 1, kTile},
               {x + skipped * ld, ld}, true, {out + (tile.start + j) * ld, ld});
    }
  }

 private:
  /// kPanelRows rows of c = a b, or with `add` c += a b: `columns`, rounded up to whole vectors.
  void multiply(std::int64_t columns, std::int64_t depth, LeftFactor a, RowMajor<const float> b,
                bool add, RowMajor<float> c) const {
    constexpr std::int64_t kPanelColumns = 2 * kVectorFloats;
    for (std::int64_t at = 0; at < columns; at += kPanelColumns) {
      fetcher.fetch(kRowsPerPanel);
      const auto panel =
          columns - at > kVectorFloats ? multiply_panel<Unit, 2> : multiply_panel<Unit, 1>;
      panel(depth, a, {b.data + at, b.ld}, add, {c.data + at, c.ld});
    }
  }
};

#ifdef HGT_AMX_ATTENTION
/// Likewise with AMX, for a `width` of whole tiles. It rounds probabilities to bf16, as
/// FlashAttention does on GPUs.
template <>
struct Products<BFloat16Amx> {
  static constexpr std::int64_t kRowUnit = kAmxPanel;
  static_assert(kVectorFloats == kAmxPairs);
  using ProbabilityUnit = BFloat16Amx;
  using Registers = AmxRegisters;

  std::int64_t width, ld;
  RowFetcher& fetcher;

  void scores(const Tile& tile, const float* x, const float* y_transposed, float* out) const {
    const float* const y = y_transposed + tile.start * ld;
    for (std::int64_t r = 0; r < tile.block.rows; r += kAmxPanel)
      for (std::int64_t j = 0; j < tile.columns(r, kAmxPanel); j += kAmxPanel)
        multiply(width / kAmxDepth, rows_of(x + r * ld, ld), columns_of(y + j, kTile), false,
                 {out + r * kTile + j, kTile});
  }
  void add_to_rows(const Tile& tile, const float* weights, const float* y, float* out) const {
    for (std::int64_t r = 0; r < tile.block.rows; r += kAmxPanel)
      for (std::int64_t i = 0; i < ld; i += kAmxPanel)
        multiply(round_up(tile.columns(r, kAmxPanel), kAmxDepth) / kAmxDepth,
                 rows_of(weights + r * kTile, kTile), columns_of(y + tile.start * ld + i, ld), true,
                 {out + r * ld + i, ld});
  }
  void add_to_keys(const Tile& tile, const float* weights, const float* x, float* out) const {
    const std::int64_t tiles = round_up(tile.block.rows, kAmxDepth) / kAmxDepth;
    for (std::int64_t j = 0; j < tile.keys(); j += kAmxPanel) {
      constexpr std::int64_t kPairs = kTile / 2;
      float transposed[kAmxPanel * kPairs];  // [keys, pairs of rows]
      const std::int64_t skipped = tile.first_row(j) / kAmxDepth;
      for (std::int64_t t = skipped * kAmxPairs; t < tiles * kAmxPairs; t += kAmxPairs)
        for (std::int64_t key = 0; key < kAmxPanel; key += kAmxRows)
          transpose_square({weights + t * kTile + j + key, kTile},
                           {transposed + key * kPairs + t, kPairs});
      for (std::int64_t i = 0; i < ld; i += kAmxPanel)
        multiply(tiles - skipped, rows_of(transposed + skipped * kAmxPairs, kPairs),
                 columns_of(x + skipped * kAmxPairs * ld + i, ld), true,
                 {out + (tile.start + j) * ld + i, ld});
    }
  }

 private:
  /// Tiles of a row-major left factor, and of a right one.
  static AmxFactor rows_of(const float* x, std::int64_t ld) {
    return {x, ld, kAmxPairs, kAmxRows * ld};
  }
  static AmxFactor columns_of(const float* x, std::int64_t ld) {
    return {x, ld, kAmxPairs * ld, kAmxRows};
  }
  void multiply(std::int64_t tiles, AmxFactor a, AmxFactor b, bool add, RowMajor<float> c) const {
    fetcher.fetch(kRowsPerAmxPanel);
    multiply_amx<1>(tiles, a, b, add, c.data, c.ld);
  }
};
#endif

/// Calls fn(T{}, Unit{}) with the type of heads of `dtype` and the unit in which they are
/// multiplied: bf16 if that is faster than fp32.
template <class Fn>
void visit_unit(DType dtype, [[maybe_unused]] std::int64_t width, const Fn& fn) {
#ifdef HGT_AMX_ATTENTION
  if (dtype == DType::kBF16 && width % kAmxDepth == 0 && may_use_amx())
    return fn(BFloat16{}, BFloat16Amx{});
#endif
#if defined(__AVX512BF16__)
  if (dtype == DType::kBF16 && bf16_pairs_pay()) return fn(BFloat16{}, BFloat16Pair{});
#endif
  visit_element(dtype, [&]<class T>(T element) { fn(element, FloatUnit{}); });
}

}  // namespace hgt::cpu
