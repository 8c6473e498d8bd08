#include <algorithm>
#include <cstdint>
#include <immintrin.h>

#include "hgtrain/base/kernel_sizes.h"

#include "amx.h"
#include "blocked_product.h"
#include "packed_product.h"
#include "tile_product.h"

namespace hgt::cpu {
namespace {

static_assert(kVectorFloats == kAmxPairs);

/// The first `count` of 32 lanes.
__mmask32 first_lanes(std::int64_t count) {
  return static_cast<__mmask32>((std::uint64_t{1} << std::clamp<std::int64_t>(count, 0, 32)) - 1);
}

/// Pairs of x[k, c] and x[k + 1, c] for 16 columns, of which `columns` are in x; rows from `depth`
/// on are 0.
Vector pairs_down(const BFloat16* x, std::int64_t ld, std::int64_t columns, std::int64_t k,
                  std::int64_t depth) {
  const auto row = [&](std::int64_t r) {
    const auto lanes = static_cast<__mmask16>(r < depth ? first_lanes(columns) : 0);
    return (Halves)_mm256_maskz_loadu_epi16(lanes, x + r * ld);
  };
  return interleaved(row(k), row(k + 1));
}

/// x[k] to x[k + 31], in pairs; 0 from `depth` on.
Vector pairs_along(const BFloat16* x, std::int64_t k, std::int64_t depth) {
  return (Vector)_mm512_maskz_loadu_epi16(first_lanes(depth - k), x + k);
}

/// Multiplies pairs of bf16, in panels of two by two tiles. A packed operand consists of tiles: all
/// those of the first 16 rows of op(a), or columns of op(b), along the sum, then the next 16. They
/// are filled up with zeros, to whole tiles and to whole panels.
struct TilePanels {
  static constexpr std::int64_t kRowUnit = kAmxPanel, kColumnUnit = kAmxPanel,
                                kDepthUnit = kAmxDepth;

  /// Rows are read one after the other, because b may have many columns.
  static void pack_right(const Product<BFloat16>& p, std::int64_t first, std::int64_t depth,
                         std::int64_t column, std::int64_t columns, float* out) {
    if (p.transpose_b)
      return pack_rows(p.b + column * p.ldb + first, p.ldb, columns, depth, true, out);
    const BFloat16* const b = p.b + first * p.ldb + column;
    const std::int64_t all_pairs = tiles_along(depth) * kAmxPairs;
    for (std::int64_t pair = 0; pair < all_pairs; ++pair)
      for (std::int64_t j = 0; j < round_up(columns, kColumnUnit); j += kAmxRows)
        vector_at(out + j * all_pairs + pair * kAmxRows) =
            pairs_down(b + j, p.ldb, columns - j, 2 * pair, depth);
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
        const AmxFactor left = factor(a + r * tiles * kAmxPairs, tiles);
        const AmxFactor right = factor(b + j * tiles * kAmxPairs, tiles);
        float* const out = c.data + r * c.ld + j;
        const std::int64_t height = std::min(kRowUnit, rows - r);
        const std::int64_t width = std::min(kColumnUnit, columns - j);
        if (height == kRowUnit && width == kColumnUnit) {
          multiply_amx(tiles, left, right, add, out, c.ld);
          continue;
        }
        // Starts from c as a whole panel does, so that the bits do not depend on how c is cut.
        float panel[kRowUnit * kColumnUnit] = {};
        const RowMajor<float> part{panel, kColumnUnit};
        if (add) put_part({out, c.ld}, height, width, false, part);
        multiply_amx(tiles, left, right, add, panel, kColumnUnit);
        put_part({panel, kColumnUnit}, height, width, false, {out, c.ld});
      }
  }

 private:
  static AmxFactor factor(const float* packed, std::int64_t tiles) {
    return {packed, kAmxPairs, kAmxUnits, tiles * kAmxUnits};
  }
  static std::int64_t tiles_along(std::int64_t depth) {
    return (depth + kAmxDepth - 1) / kAmxDepth;
  }

  /// x's rows, of which a tile has 16; or with `transposed`, they become a tile's columns.
  static void pack_rows(const BFloat16* x, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                        bool transposed, float* out) {
    for (std::int64_t i = 0; i < round_up(rows, kRowUnit); i += kAmxRows)
      for (std::int64_t k = 0; k < depth; k += kAmxDepth, out += kAmxUnits) {
        float square[kAmxUnits];
        float* const tile = transposed ? square : out;
        for (std::int64_t r = i; r < i + kAmxRows; ++r)
          vector_at(tile + (r - i) * kAmxPairs) =
              r < rows ? pairs_along(x + r * ld, k, depth) : Vector{};
        if (transposed) transpose_square({square, kAmxPairs}, {out, kAmxPairs});
      }
  }

  /// x's columns, which become a tile's rows.
  static void pack_columns(const BFloat16* x, std::int64_t ld, std::int64_t columns,
                           std::int64_t depth, float* out) {
    for (std::int64_t j = 0; j < round_up(columns, kRowUnit); j += kAmxRows)
      for (std::int64_t k = 0; k < depth; k += kAmxDepth, out += kAmxUnits) {
        float square[kAmxUnits];
        for (std::int64_t r = 0; r < kAmxPairs; ++r)
          vector_at(square + r * kAmxRows) = pairs_down(x + j, ld, columns - j, k + 2 * r, depth);
        transpose_square({square, kAmxRows}, {out, kAmxPairs});
      }
  }
};

}  // namespace

[[gnu::flatten]] void amx_product(const Product<BFloat16>& p, float* scratch) {
  const AmxRegisters registers;
  BlockedProduct<TilePanels>::run(p, scratch);
}

}  // namespace hgt::cpu
