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

/// to[i] = sums[i], as `convert` rounds 16 of them.
template <class T, class Convert>
void round_sums(const float* sums, std::int64_t count, T* to, const Convert& convert) {
  for (std::int64_t i = 0; i < count; i += kAmxPairs) {
    const auto lanes = static_cast<__mmask16>(first_lanes(count - i));
    _mm256_mask_storeu_epi16(to + i, lanes, convert(_mm512_maskz_loadu_ps(lanes, sums + i)));
  }
}

/// How elements become pairs. Pair i along the sum is of the elements kFirst * i and kFirst * i +
/// kNext. A row of a tile has 16 pairs, which are loaded as kVectors; it is kParts rows, one in the
/// tile of each part.
template <class T>
struct Elements;

template <>
struct Elements<BFloat16> {
  static constexpr int kVectors = 1, kParts = 1;
  static constexpr std::int64_t kFirst = 2, kNext = 1;

  /// The first `count` of 16 elements, and zeros.
  static Halves load(const BFloat16* x, std::int64_t count) {
    return (Halves)_mm256_maskz_loadu_epi16(static_cast<__mmask16>(first_lanes(count)), x);
  }
  /// Pairs of an element of each.
  static void pair(Halves first, Halves second, Vector (&out)[1]) {
    out[0] = interleaved(first, second);
  }
  /// The pairs of the first `count` of 32 elements, and zeros.
  static void load_pairs(const BFloat16* x, std::int64_t count, Vector (&out)[1]) {
    out[0] = (Vector)_mm512_maskz_loadu_epi16(first_lanes(count), x);
  }
  static void split(const Vector (&pairs)[1], Vector (&out)[1]) { out[0] = pairs[0]; }
  static void round(const float* sums, std::int64_t count, BFloat16* to) {
    round_sums(sums, count, to, [](__m512 x) { return (__m256i)_mm512_cvtneps_pbh(x); });
  }
};

/// Numbers that are the sum of `parts` bf16.
template <int parts>
struct InParts {
  static constexpr int kVectors = 2, kParts = parts;
  static constexpr std::int64_t kFirst = 1, kNext = kAmxPairs;

  static void pair(Vector first, Vector second, Vector (&out)[2]) {
    out[0] = first;
    out[1] = second;
  }
  static void split(const Vector (&pairs)[2], Vector (&out)[parts]) {
    Vector first = pairs[0], second = pairs[1];
    for (int part = 0; part < parts - 1; ++part) {
      const Vector one = rounded(first), other = rounded(second);
      out[part] = upper_halves(one, other);
      first -= one;
      second -= other;
    }
    out[parts - 1] = upper_halves(first, second);
  }

 private:
  using Words = std::uint32_t __attribute__((vector_size(4 * kVectorFloats)));
  static constexpr std::uint32_t kUpperHalf = 0xffff0000;
  /// To the nearest bf16. Of a NaN, it may be a number, but then what is left is a NaN.
  static Vector rounded(Vector x) { return (Vector)(((Words)x + 0x8000) & kUpperHalf); }
  static Vector upper_halves(Vector first, Vector second) {
    return (Vector)((Words)first >> 16 | ((Words)second & kUpperHalf));
  }
};

/// The last part has 6 of the 24 bits.
template <>
struct Elements<float> : InParts<3> {
  static Vector load(const float* x, std::int64_t count) {
    return (Vector)_mm512_maskz_loadu_ps(static_cast<__mmask16>(first_lanes(count)), x);
  }
  static void load_pairs(const float* x, std::int64_t count, Vector (&out)[2]) {
    pair(load(x, count), load(x + kNext, count - kNext), out);
  }
};

/// The last part has 3 of the 11 bits.
template <>
struct Elements<Half> : InParts<2> {
  static Vector load(const Half* x, std::int64_t count) {
    const auto lanes = static_cast<__mmask16>(first_lanes(count));
    return (Vector)_mm512_maskz_cvtph_ps(lanes, _mm256_maskz_loadu_epi16(lanes, x));
  }
  static void load_pairs(const Half* x, std::int64_t count, Vector (&out)[2]) {
    pair(load(x, count), load(x + kNext, count - kNext), out);
  }
  static void round(const float* sums, std::int64_t count, Half* to) {
    constexpr __mmask16 kAll = 0xffff;
    round_sums(sums, count, to, [](__m512 x) {
      return _mm512_maskz_cvtps_ph(kAll, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    });
  }
};

/// Multiplies pairs of bf16, in panels of two by two tiles. A packed operand consists of tiles: all
/// those of the first 16 rows of op(a), or columns of op(b), along the sum, then the next 16. They
/// are filled up with zeros, to whole tiles and to whole panels. Each tile of the first part is
/// followed by those of the others.
template <class T>
struct TilePanels : Elements<T> {
  using Elements<T>::kVectors, Elements<T>::kParts, Elements<T>::kFirst, Elements<T>::kNext;
  static constexpr std::int64_t kRowUnit = kAmxPanel, kColumnUnit = kAmxPanel,
                                kDepthUnit = kAmxDepth;
  static constexpr std::int64_t kTileUnits = kParts * kAmxUnits;
  /// Of a block; as many as fit into the memory that floats take in packed_product.cpp.
  static constexpr std::int64_t kRows = 2 * kPackedRows / kParts,
                                kColumns = 2 * kPackedColumns / kParts;
  static_assert(kColumns * kParts <= 2 * kPackedColumns &&
                kRows * kPackedDepth * kParts <= 2 * kPackedLeftFloats);

  /// Rows are read one after the other, because b may have many columns.
  static void pack_right(const Product<T>& p, std::int64_t first, std::int64_t depth,
                         std::int64_t column, std::int64_t columns, float* out) {
    if (p.transpose_b)
      return pack_rows(p.b + column * p.ldb + first, p.ldb, columns, depth, true, out);
    const T* const b = p.b + first * p.ldb + column;
    for (std::int64_t k = 0; k < depth; k += kAmxDepth, out += kTileUnits)
      for (std::int64_t pair = 0; pair < kAmxPairs; ++pair)
        for (std::int64_t j = 0; j < round_up(columns, kColumnUnit); j += kAmxRows) {
          Vector row[kVectors];
          load_pair(b + k * p.ldb + j, p.ldb, columns - j, pair, depth - k, row);
          put(row, out + j * units_along(depth) + pair * kAmxRows);
        }
  }

  static const float* pack_left(const Product<T>& p, std::int64_t row, std::int64_t rows,
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
        const AmxFactor left = factor(a + r * units_along(depth), tiles);
        const AmxFactor right = factor(b + j * units_along(depth), tiles);
        float* const out = c.data + r * c.ld + j;
        const std::int64_t height = std::min(kRowUnit, rows - r);
        const std::int64_t width = std::min(kColumnUnit, columns - j);
        if (height == kRowUnit && width == kColumnUnit) {
          const bool is_last = j + kColumnUnit >= columns;
          const float* const coming = is_last ? c.data + (r + kRowUnit) * c.ld : out + kColumnUnit;
          multiply_amx<kParts>(tiles, left, right, add, out, c.ld, coming);
          continue;
        }
        // Starts from c as a whole panel does, so that the bits do not depend on how c is cut.
        alignas(64) float panel[kRowUnit * kColumnUnit] = {};
        const RowMajor<float> part{panel, kColumnUnit};
        if (add) put_part({out, c.ld}, height, width, false, part);
        multiply_amx<kParts>(tiles, left, right, add, panel, kColumnUnit);
        put_part({panel, kColumnUnit}, height, width, false, {out, c.ld});
      }
  }

 private:
  static AmxFactor factor(const float* packed, std::int64_t tiles) {
    return {packed, kAmxPairs, kTileUnits, tiles * kTileUnits};
  }
  static std::int64_t tiles_along(std::int64_t depth) {
    return (depth + kAmxDepth - 1) / kAmxDepth;
  }
  /// Of one of the rows or columns that a tile has 16 of.
  static std::int64_t units_along(std::int64_t depth) {
    return tiles_along(depth) * kTileUnits / kAmxRows;
  }

  /// Pair `pair` of each of 16 columns of x [32, columns]; rows from `depth` on are 0.
  static void load_pair(const T* x, std::int64_t ld, std::int64_t columns, std::int64_t pair,
                        std::int64_t depth, Vector (&out)[kVectors]) {
    const auto row = [&](std::int64_t r) {
      fetch(x + (r + kAmxDepth) * ld, kAmxRows);
      return Elements<T>::load(x + r * ld, r < depth ? columns : 0);
    };
    const std::int64_t first = pair * kFirst;
    Elements<T>::pair(row(first), row(first + kNext), out);
  }

  /// A row of a tile, and of those of the parts that follow it.
  static void put(const Vector (&row)[kVectors], float* out) {
    Vector parts[kParts];
    Elements<T>::split(row, parts);
    for (int part = 0; part < kParts; ++part) vector_at(out + part * kAmxUnits) = parts[part];
  }

  /// Tiles whose rows are what load(row, out) gives, or with `transposed` its columns.
  template <class Load>
  static void make_tiles(const Load& load, bool transposed, float* out) {
    float squares[kVectors][kAmxUnits];
    for (std::int64_t r = 0; r < kAmxRows; ++r) {
      Vector row[kVectors];
      load(r, row);
      if (!transposed) {
        put(row, out + r * kAmxPairs);
        continue;
      }
      for (int v = 0; v < kVectors; ++v) vector_at(squares[v] + r * kAmxPairs) = row[v];
    }
    if (!transposed) return;
    for (float* square : squares) transpose_square({square, kAmxPairs}, {square, kAmxPairs});
    for (std::int64_t r = 0; r < kAmxRows; ++r) {
      Vector row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = vector_at(squares[v] + r * kAmxPairs);
      put(row, out + r * kAmxPairs);
    }
  }

  /// x's rows, of which a tile has 16; or with `transposed`, they become a tile's columns.
  static void pack_rows(const T* x, std::int64_t ld, std::int64_t rows, std::int64_t depth,
                        bool transposed, float* out) {
    for (std::int64_t i = 0; i < round_up(rows, kRowUnit); i += kAmxRows)
      for (std::int64_t k = 0; k < depth; k += kAmxDepth, out += kTileUnits)
        make_tiles(
            [&](std::int64_t r, Vector(&row)[kVectors]) {
              Elements<T>::load_pairs(x + (i + r) * ld + k, i + r < rows ? depth - k : 0, row);
            },
            transposed, out);
  }

  /// x's columns, which become a tile's rows.
  static void pack_columns(const T* x, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                           float* out) {
    for (std::int64_t k = 0; k < depth; k += kAmxDepth, out += kTileUnits)
      for (std::int64_t j = 0; j < round_up(columns, kRowUnit); j += kAmxRows)
        make_tiles(
            [&](std::int64_t pair, Vector(&row)[kVectors]) {
              load_pair(x + k * ld + j, ld, columns - j, pair, depth - k, row);
            },
            true, out + j * units_along(depth));
  }
};

}  // namespace

template <class T>
[[gnu::flatten]] void amx_product(const Product<T>& p, float* scratch) {
  const AmxRegisters registers;
  BlockedProduct<TilePanels<T>>::run(p, scratch);
}
template void amx_product(const Product<float>&, float*);
template void amx_product(const Product<BFloat16>&, float*);
template void amx_product(const Product<Half>&, float*);

}  // namespace hgt::cpu
