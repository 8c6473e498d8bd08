#include "packed_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hgtrain/base/kernel_sizes.h"

#include "tile_product.h"

// The order of loops is Goto and van de Geijn's (Anatomy of high-performance matrix multiplication,
// 2008): a block of b stays in the second-level cache while all rows of a are multiplied by it.

namespace hgt::cpu {
namespace {

constexpr std::int64_t kVectors = 3;  ///< of a panel's row: with kPanelRows they fill the registers
constexpr std::int64_t kColumns = kVectors * kVectorFloats;
static_assert(kPackedColumns % kColumns == 0 && kPackedRows % kPanelRows == 0 &&
              kPackedBand % kPackedRows == 0);

/// The length of n's parts if they are equal, multiples of `unit`, and at most `max_part`.
std::int64_t part_of(std::int64_t n, std::int64_t max_part, std::int64_t unit) {
  const std::int64_t parts = (n + max_part - 1) / max_part;
  return round_up((n + parts - 1) / parts, unit);
}

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
      for (std::int64_t c = 0; c < columns; ++c)
        widen(x + c * ld + k, kVectorFloats, square + c * kVectorFloats);
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

/// Rows [first, first + depth) and columns [column, column + columns) of op(b), in panels [depth,
/// kColumns], the last of which is filled up with zeros.
template <class T>
void pack_right(const Product<T>& p, std::int64_t first, std::int64_t depth, std::int64_t column,
                std::int64_t columns, float* out) {
  if (!p.transpose_b) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = 0; j < columns; j += kColumns) {
        const std::int64_t width = std::min(kColumns, columns - j);
        const T* const from = p.b + (first + k) * p.ldb + column + j;
        float* const row = out + j * depth + k * kColumns;
        if (width == kColumns) {
          widen(from, kColumns, row);
          continue;
        }
        widen(from, width, row);
        std::fill(row + width, row + kColumns, 0.0f);
      }
    return;
  }
  for (std::int64_t j = 0; j < columns; j += kColumns, out += depth * kColumns) {
    const std::int64_t width = std::min(kColumns, columns - j);
    for (std::int64_t c = 0; c < kColumns; c += kVectorFloats)
      pack_transposed(p.b + (column + j + c) * p.ldb + first, p.ldb,
                      std::clamp<std::int64_t>(width - c, 0, kVectorFloats), depth,
                      {out + c, kColumns});
  }
}

/// Rows of op(a), in panels of kPanelRows.
struct PackedLeft {
  LeftFactor first;
  std::int64_t next;  ///< floats from one panel to the next
};

/// Rows [row, row + rows) and columns [first, first + depth) of op(a): in place, if no element must
/// be widened and no row added.
template <class T>
PackedLeft pack_left(const Product<T>& p, std::int64_t row, std::int64_t rows, std::int64_t first,
                     std::int64_t depth, float* out) {
  if (p.transpose_a) {
    for (std::int64_t k = 0; k < depth; ++k) {
      const T* const from = p.a + (first + k) * p.lda + row;
      float* const to = out + k * kPanelRows;
      std::int64_t r = 0;
      for (; r + kPanelRows <= rows; r += kPanelRows) widen(from + r, kPanelRows, to + r * depth);
      widen(from + r, rows - r, to + r * depth);
    }
    return {{out, 1, kPanelRows}, kPanelRows * depth};
  }
  if constexpr (std::is_same_v<T, float>)
    if (rows % kPanelRows == 0) return {{p.a + row * p.lda + first, p.lda, 1}, kPanelRows * p.lda};
  constexpr std::int64_t kStride = kPackedDepth + kVectorFloats;  // rows begin in different sets
  static_assert(kPackedRows * kStride <= kPackedLeftFloats);
  for (std::int64_t r = 0; r < rows; ++r)
    widen(p.a + (row + r) * p.lda + first, depth, out + r * kStride);
  return {{out, kStride, 1}, kPanelRows * kStride};
}

/// c = a b, or with `add` c += a b, for packed operands.
void multiply_packed(std::int64_t rows, std::int64_t columns, std::int64_t depth, PackedLeft a,
                     const float* b, bool add, RowMajor<float> c) {
  float tile[kPanelRows * kColumns];  // of a panel that reaches beyond c
  for (std::int64_t r = 0; r < rows; r += kPanelRows) {
    const LeftFactor left = a.first;
    a.first.data += a.next;
    const std::int64_t height = std::min(kPanelRows, rows - r);
    for (std::int64_t j = 0; j < columns; j += kColumns) {
      const RowMajor<const float> right{b + j * depth, kColumns};
      const std::int64_t width = std::min(kColumns, columns - j);
      const auto panel = width > 2 * kVectorFloats ? multiply_panel<FloatUnit, 3>
                         : width > kVectorFloats   ? multiply_panel<FloatUnit, 2>
                                                   : multiply_panel<FloatUnit, 1>;
      float* const out = c.data + r * c.ld + j;
      if (height == kPanelRows && width % kVectorFloats == 0) {
        panel(depth, left, right, add, {out, c.ld});
        continue;
      }
      panel(depth, left, right, false, {tile, kColumns});
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x) {
          float& to = out[y * c.ld + x];
          to = add ? to + tile[y * kColumns + x] : tile[y * kColumns + x];
        }
    }
  }
}

template <class T>
void round_rows(RowMajor<const float> x, std::int64_t rows, std::int64_t columns, RowMajor<T> out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* const from = x.data + r * x.ld;
    T* const to = out.data + r * out.ld;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) to[i] = from[i];
  }
}

/// A band of c's rows. Sums are fp32 in c itself, or in the scratch memory, and rounded at the end.
template <class T>
void multiply_band(const Product<T>& p, std::int64_t top, std::int64_t band,
                   std::int64_t depth_part, float* scratch) {
  float* const right = scratch;
  float* const left = right + kPackedDepth * kPackedColumns;
  float* const sums = left + kPackedLeftFloats;
  const std::int64_t column_part = part_of(p.n, kPackedColumns, kColumns);
  const std::int64_t row_part = part_of(band, kPackedRows, kPanelRows);
  for (std::int64_t column = 0; column < p.n; column += column_part) {
    const std::int64_t columns = std::min(column_part, p.n - column);
    std::int64_t first = 0;
    do {
      const std::int64_t depth = std::min(depth_part, p.k - first);
      const bool whole = depth == p.k, last = first + depth == p.k;
      pack_right(p, first, depth, column, columns, right);
      for (std::int64_t row = top; row < top + band; row += row_part) {
        const std::int64_t rows = std::min(row_part, top + band - row);
        const RowMajor<float> out =
            p.wide ? RowMajor<float>{static_cast<float*>(p.c) + row * p.ldc + column, p.ldc}
                   : RowMajor<float>{whole ? sums : sums + (row - top) * columns, columns};
        multiply_packed(rows, columns, depth, pack_left(p, row, rows, first, depth, left), right,
                        first > 0 || (p.wide && p.add), out);
        if (!p.wide && last)
          round_rows<T>({out.data, out.ld}, rows, columns,
                        {static_cast<T*>(p.c) + row * p.ldc + column, p.ldc});
      }
      first += depth;
    } while (first < p.k);
  }
}

/// One band suffices unless the scratch memory must keep its sums from one part of the depth to the
/// next.
template <class T>
[[gnu::flatten]] void packed_multiply(const Product<T>& p, float* scratch) {
  const std::int64_t depth_part = part_of(std::max<std::int64_t>(p.k, 1), kPackedDepth, 1);
  const std::int64_t band = p.wide || p.k <= depth_part ? p.m : kPackedBand;
  for (std::int64_t top = 0; top < p.m; top += band)
    multiply_band(p, top, std::min(band, p.m - top), depth_part, scratch);
}

}  // namespace

#ifndef HGT_PACKED_KERNELS
#define HGT_PACKED_KERNELS kPackedKernels
#endif
extern const PackedKernels HGT_PACKED_KERNELS = {packed_multiply<float>, packed_multiply<BFloat16>,
                                                 packed_multiply<Half>};

}  // namespace hgt::cpu
