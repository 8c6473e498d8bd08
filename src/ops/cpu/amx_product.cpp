#include <algorithm>
#include <cstdint>
#include <immintrin.h>

#include "hgtrain/base/kernel_sizes.h"

#include "blocked_product.h"
#include "packed_product.h"
#include "tile_product.h"

// Intel's Advanced Matrix Extensions have eight registers of 16 rows of 64 bytes. An instruction
// multiplies 16 rows of 32 bf16 by 16 columns, whose numbers lie in pairs along the sum, as in
// tile_product.h's BFloat16Pair. Source: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, chapter 18.

namespace hgt::cpu {
namespace {

constexpr std::int64_t kRows = 16, kPairs = 16, kDepth = 2 * kPairs;
constexpr std::int64_t kTileUnits = kRows * kPairs;  ///< of 32 bits: a pair, or a float of c

/// What LDTILECFG reads.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kRows, kRows, kRows, kRows, kRows, kRows, kRows, kRows};
};

/// The first `count` of 32 lanes.
__mmask32 first_lanes(std::int64_t count) {
  return static_cast<__mmask32>((std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, 32)) - 1);
}

/// 16 pairs of bf16.
using Pairs = std::uint32_t __attribute__((vector_size(4 * kPairs)));

/// Pairs of x[k, c] and x[k + 1, c] for 16 columns, of which `columns` are in x; rows from `depth`
/// on are 0.
Pairs pairs_down(const BFloat16* x, std::int64_t ld, std::int64_t columns, std::int64_t k,
                 std::int64_t depth) {
  using Row = std::uint16_t __attribute__((vector_size(2 * kPairs)));
  const auto row = [&](std::int64_t r) {
    const auto lanes = static_cast<__mmask16>(r < depth ? first_lanes(columns) : 0);
    return __builtin_convertvector((Row)_mm256_maskz_loadu_epi16(lanes, x + r * ld), Pairs);
  };
  return row(k) | row(k + 1) << 16;
}

/// x[k] to x[k + 31], in pairs; 0 from `depth` on.
Pairs pairs_along(const BFloat16* x, std::int64_t k, std::int64_t depth) {
  return (Pairs)_mm512_maskz_loadu_epi16(first_lanes(depth - k), x + k);
}

/// Multiplies pairs of bf16, in panels of two by two tiles. A packed operand consists of tiles: all
/// those of the first 16 rows of op(a), or columns of op(b), along the sum, then the next 16. They
/// are filled up with zeros, to whole tiles and to whole panels.
struct TilePanels {
  static constexpr std::int64_t kRowUnit = 2 * kRows, kColumnUnit = 2 * kRows, kDepthUnit = kDepth;

  /// Rows are read one after the other, because b may have many columns.
  static void pack_right(const Product<BFloat16>& p, std::int64_t first, std::int64_t depth,
                         std::int64_t column, std::int64_t columns, float* out) {
    if (p.transpose_b)
      return pack_rows(p.b + column * p.ldb + first, p.ldb, columns, depth, true, out);
    const BFloat16* const b = p.b + first * p.ldb + column;
    const std::int64_t all_pairs = tiles_along(depth) * kPairs;
    for (std::int64_t pair = 0; pair < all_pairs; ++pair)
      for (std::int64_t j = 0; j < round_up(columns, kColumnUnit); j += kRows)
        vector_at(out + j * all_pairs + pair * kRows) =
            (Vector)pairs_down(b + j, p.ldb, columns - j, 2 * pair, depth);
  }

  static const float* pack_left(const Product<BFloat16>& p, std::int64_t row, std::int64_t rows,
                                std::int64_t first, std::int64_t depth, float* out) {
    if (p.transpose_a)
      pack_columns(p.a + first * p.lda + row, p.lda, rows, depth, out);
    else
      pack_rows(p.a + row * p.lda + first, p.lda, rows, depth, false, out);
    return out;
  }

  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
                       const float* b, bool add, RowMajor<float> c) {
    const std::int64_t tiles = tiles_along(depth);
    for (std::int64_t r = 0; r < rows; r += kRowUnit)
      for (std::int64_t j = 0; j < columns; j += kColumnUnit) {
        const float* const left = a + r / kRows * tiles * kTileUnits;
        const float* const right = b + j / kRows * tiles * kTileUnits;
        float* const out = c.data + r * c.ld + j;
        const std::int64_t height = std::min(kRowUnit, rows - r);
        const std::int64_t width = std::min(kColumnUnit, columns - j);
        if (height == kRowUnit && width == kColumnUnit) {
          multiply_panel(tiles, left, right, add, {out, c.ld});
          continue;
        }
        // Starts from c as a whole panel does, so that the bits do not depend on how c is cut.
        float panel[kRowUnit * kColumnUnit] = {};
        const RowMajor<float> part{panel, kColumnUnit};
        if (add) put_part({out, c.ld}, height, width, false, part);
        multiply_panel(tiles, left, right, add, part);
        put_part({panel, kColumnUnit}, height, width, false, {out, c.ld});
      }
  }

 private:
  static std::int64_t tiles_along(std::int64_t depth) { return (depth + kDepth - 1) / kDepth; }

  /// x's rows, of which a tile has 16; or with `transposed`, they become a tile's columns.
  static void pack_rows(const BFloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                        bool transposed, float* out) {
    for (std::int64_t i = 0; i < round_up(rows, kRowUnit); i += kRows)
      for (std::int64_t k = 0; k < depth; k += kDepth, out += kTileUnits) {
        float square[kTileUnits];
        float* const tile = transposed ? square : out;
        for (std::int64_t r = i; r < i + kRows; ++r)
          vector_at(tile + (r - i) * kPairs) =
              r < rows ? (Vector)pairs_along(x + r * ld, k, depth) : Vector{};
        if (transposed) transpose_square({square, kPairs}, {out, kPairs});
      }
  }

  /// x's columns, which become a tile's rows.
  static void pack_columns(const BFloat16* x, std::int64_t ld, std::int64_t columns,
                           std::int64_t depth, float* out) {
    for (std::int64_t j = 0; j < round_up(columns, kRowUnit); j += kRows)
      for (std::int64_t k = 0; k < depth; k += kDepth, out += kTileUnits) {
        float square[kTileUnits];
        for (std::int64_t r = 0; r < kPairs; ++r)
          vector_at(square + r * kRows) =
              (Vector)pairs_down(x + j, ld, columns - j, k + 2 * r, depth);
        transpose_square({square, kRows}, {out, kPairs});
      }
  }

  /// Registers 0 to 3 hold c, 4 and 5 rows of a, 6 and 7 columns of b.
  static void multiply_panel(std::int64_t tiles, const float* a, const float* b, bool add,
                             RowMajor<float> c) {
    constexpr int kTileRow = 64;  // bytes
    const std::int64_t row = c.ld * std::int64_t{sizeof(float)};
    float* const lower = c.data + kRows * c.ld;
    if (add) {
      _tile_loadd(0, c.data, row);
      _tile_loadd(1, c.data + kRows, row);
      _tile_loadd(2, lower, row);
      _tile_loadd(3, lower + kRows, row);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (std::int64_t t = 0; t < tiles; ++t, a += kTileUnits, b += kTileUnits) {
      _tile_loadd(6, b, kTileRow);
      _tile_loadd(4, a, kTileRow);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + tiles * kTileUnits, kTileRow);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + tiles * kTileUnits, kTileRow);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c.data, row);
    _tile_stored(1, c.data + kRows, row);
    _tile_stored(2, lower, row);
    _tile_stored(3, lower + kRows, row);
  }
};

}  // namespace

[[gnu::flatten]] void amx_product(const Product<BFloat16>& p, float* scratch) {
  const TileShapes shapes;
  _tile_loadconfig(&shapes);
  BlockedProduct<TilePanels>::run(p, scratch);
  _tile_release();
}

}  // namespace hgt::cpu
