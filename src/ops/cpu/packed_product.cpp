#include "packed_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hgtrain/base/kernel_sizes.h"

#include "blocked_product.h"
#include "rows.h"
#include "tile_product.h"

namespace hgt::cpu {
namespace {

// How far ahead operands are fetched while they are packed: their rows may be far apart, so that
// the CPU does not fetch the next ones by itself. Of op(a), a row of a block is short.
constexpr std::int64_t kRightRowsAhead = 2, kLeftRowsAhead = 4, kElementsAhead = 64;

template <class T>
void widen(const T* from, std::int64_t count, float* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

/// `to`[r, c] for `depth` rows and kVectorFloats columns, of which `columns` are in x [columns,
/// depth]; the others become 0.
template <class T>
void pack_transposed(const T* x, std::int64_t ld, std::int64_t columns, std::int64_t depth,
                     RowMajor<float> to) {
  float square[kVectorFloats * kVectorFloats] = {};
  for (std::int64_t k = 0; k < depth; k += kVectorFloats) {
    const std::int64_t width = std::min(kVectorFloats, depth - k);
    if (width == kVectorFloats) {
      for (std::int64_t c = 0; c < columns; ++c) {
        fetch(x + c * ld + k + kElementsAhead, kVectorFloats);
        widen(x + c * ld + k, kVectorFloats, square + c * kVectorFloats);
      }
      transpose_square({square, kVectorFloats}, {to.data + k * to.ld, to.ld});
      continue;
    }
    for (std::int64_t c = 0; c < columns; ++c)
      widen(x + c * ld + k, width, square + c * kVectorFloats);
    for (std::int64_t r = 0; r < width; ++r)
      for (std::int64_t c = 0; c < kVectorFloats; ++c)
        to.data[(k + r) * to.ld + c] = square[c * kVectorFloats + r];
  }
}

/// Multiplies floats, in panels that fill the registers.
struct FloatPanels {
  static constexpr std::int64_t kRowUnit = kPanelRows, kColumnUnit = 3 * kVectorFloats;
  static constexpr std::int64_t kDepthUnit = 1;
  static constexpr std::int64_t kRows = kPackedRows, kColumns = kPackedColumns;

  /// Rows of op(a), in panels of kPanelRows.
  struct PackedLeft {
    LeftFactor first;
    std::int64_t next;  ///< floats from one panel to the next
  };

  /// Rows [first, first + depth) and columns [column, column + columns) of op(b), in panels [depth,
  /// kColumnUnit], the last of which is filled up with zeros.
  template <class T>
  static void pack_right(const Product<T>& p, std::int64_t first, std::int64_t depth,
                         std::int64_t column, std::int64_t columns, float* out) {
    if (!p.transpose_b) {
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t j = 0; j < columns; j += kColumnUnit) {
          const std::int64_t width = std::min(kColumnUnit, columns - j);
          const T* const from = p.b + (first + k) * p.ldb + column + j;
          float* const row = out + j * depth + k * kColumnUnit;
          if (width == kColumnUnit) {
            fetch(from + kRightRowsAhead * p.ldb, kColumnUnit);
            widen(from, kColumnUnit, row);
            continue;
          }
          widen(from, width, row);
          std::fill(row + width, row + kColumnUnit, 0.0f);
        }
      return;
    }
    for (std::int64_t j = 0; j < columns; j += kColumnUnit, out += depth * kColumnUnit) {
      const std::int64_t width = std::min(kColumnUnit, columns - j);
      for (std::int64_t c = 0; c < kColumnUnit; c += kVectorFloats)
        pack_transposed(p.b + (column + j + c) * p.ldb + first, p.ldb,
                        std::clamp<std::int64_t>(width - c, 0, kVectorFloats), depth,
                        {out + c, kColumnUnit});
    }
  }

  /// Rows [row, row + rows) and columns [first, first + depth) of op(a): in place, if no element
  /// must be widened and no row added.
  template <class T>
  static PackedLeft pack_left(const Product<T>& p, std::int64_t row, std::int64_t rows,
                              std::int64_t first, std::int64_t depth, float* out) {
    if (p.transpose_a) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const T* const from = p.a + (first + k) * p.lda + row;
        float* const to = out + k * kPanelRows;
        fetch(from + kLeftRowsAhead * p.lda, rows);
        std::int64_t r = 0;
        for (; r + kPanelRows <= rows; r += kPanelRows) widen(from + r, kPanelRows, to + r * depth);
        widen(from + r, rows - r, to + r * depth);
      }
      return {{out, 1, kPanelRows}, kPanelRows * depth};
    }
    if constexpr (std::is_same_v<T, float>)
      if (rows % kPanelRows == 0)
        return {{p.a + row * p.lda + first, p.lda, 1}, kPanelRows * p.lda};
    constexpr std::int64_t kStride = kPackedDepth + kVectorFloats;  // rows begin in different sets
    static_assert(kPackedRows * kStride <= kPackedLeftFloats);
    for (std::int64_t r = 0; r < rows; ++r)
      widen(p.a + (row + r) * p.lda + first, depth, out + r * kStride);
    return {{out, kStride, 1}, kPanelRows * kStride};
  }

  /// c = a b, or with `add` c += a b, for packed operands.
  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, PackedLeft a,
                       const float* b, bool add, RowMajor<float> c) {
    float tile[kPanelRows * kColumnUnit];  // of a panel that reaches beyond c
    for (std::int64_t r = 0; r < rows; r += kPanelRows) {
      const LeftFactor left = a.first;
      a.first.data += a.next;
      const std::int64_t height = std::min(kPanelRows, rows - r);
      for (std::int64_t j = 0; j < columns; j += kColumnUnit) {
        const RowMajor<const float> right{b + j * depth, kColumnUnit};
        const std::int64_t width = std::min(kColumnUnit, columns - j);
        const auto panel = width > 2 * kVectorFloats ? multiply_panel<FloatUnit, 3>
                           : width > kVectorFloats   ? multiply_panel<FloatUnit, 2>
                                                     : multiply_panel<FloatUnit, 1>;
        float* const out = c.data + r * c.ld + j;
        if (height == kPanelRows && width % kVectorFloats == 0) {
          panel(depth, left, right, add, {out, c.ld});
          continue;
        }
        panel(depth, left, right, false, {tile, kColumnUnit});
        put_part({tile, kColumnUnit}, height, width, add, {out, c.ld});
      }
    }
  }

  template <class T>
  static void round(const float* sums, std::int64_t count, T* to) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = sums[i];
  }
};

template <class T>
[[gnu::flatten]] void packed_multiply(const Product<T>& p, float* scratch) {
  BlockedProduct<FloatPanels>::run(p, scratch);
}

}  // namespace

#ifndef HGT_PACKED_KERNELS
#define HGT_PACKED_KERNELS kPackedKernels
#endif
extern const PackedKernels HGT_PACKED_KERNELS = {packed_multiply<float>, packed_multiply<BFloat16>,
                                                 packed_multiply<Half>};

}  // namespace hgt::cpu
