#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hgtrain/base/kernel_sizes.h"

#include "products.h"
#include "tile_product.h"

namespace hgt::cpu {

/// A product by blocks of packed operands. The order of loops is Goto and van de Geijn's (Anatomy
/// of high-performance matrix multiplication, 2008): a block of b stays in the second-level cache
/// while all rows of a are multiplied by it.
///
/// `Kernel` packs and multiplies blocks: its pack_right() and pack_left() read rows and columns of
/// op(b) and op(a), its multiply() makes c = a b, or with `add` c += a b, of what they wrote, and
/// its round() rounds sums to 16 bits. A block has at most kRows rows and kColumns columns of c;
/// blocks are cut at multiples of kRowUnit, kColumnUnit and kDepthUnit. A kernel is a type of one
/// source file, so that these functions exist once for each instruction set.
template <class Kernel>
struct BlockedProduct {
  /// Floats between rows of sums, so that the rows begin in different sets of the caches.
  static constexpr std::int64_t kSumGap = 16;
  static_assert(Kernel::kColumns % Kernel::kColumnUnit == 0 &&
                Kernel::kRows % Kernel::kRowUnit == 0 && kPackedDepth % Kernel::kDepthUnit == 0 &&
                Kernel::kRows * (Kernel::kColumns + kSumGap) <= kPackedBand * kPackedColumns);

  /// One band suffices unless the scratch memory must keep its sums from one part of the depth to
  /// the next.
  template <class T>
  static void run(const Product<T>& p, float* scratch) {
    const std::int64_t depth_part =
        part_of(std::max<std::int64_t>(p.k, 1), kPackedDepth, Kernel::kDepthUnit);
    constexpr std::int64_t kMaxBand = kPackedBand * kPackedColumns / (Kernel::kColumns + kSumGap),
                           kBand = kMaxBand / Kernel::kRowUnit * Kernel::kRowUnit;
    const std::int64_t band = p.wide || p.k <= depth_part ? p.m : kBand;
    for (std::int64_t top = 0; top < p.m; top += band)
      multiply_band(p, top, std::min(band, p.m - top), depth_part, scratch);
  }

 private:
  /// The length of n's parts if they are equal, multiples of `unit`, and at most `max_part`.
  static std::int64_t part_of(std::int64_t n, std::int64_t max_part, std::int64_t unit) {
    const std::int64_t parts = (n + max_part - 1) / max_part;
    return round_up((n + parts - 1) / parts, unit);
  }

  /// A band of c's rows. Sums are fp32 in c itself, or in the scratch memory, and rounded at the
  /// end.
  template <class T>
  static void multiply_band(const Product<T>& p, std::int64_t top, std::int64_t band,
                            std::int64_t depth_part, float* scratch) {
    float* const right = scratch;
    float* const left = right + kPackedDepth * kPackedColumns;
    float* const sums = left + kPackedLeftFloats;
    const std::int64_t column_part = part_of(p.n, Kernel::kColumns, Kernel::kColumnUnit);
    const std::int64_t row_part = part_of(band, Kernel::kRows, Kernel::kRowUnit);
    const std::int64_t sums_ld = column_part + kSumGap;
    for (std::int64_t column = 0; column < p.n; column += column_part) {
      const std::int64_t columns = std::min(column_part, p.n - column);
      std::int64_t first = 0;
      do {
        const std::int64_t depth = std::min(depth_part, p.k - first);
        const bool whole = depth == p.k, last = first + depth == p.k;
        Kernel::pack_right(p, first, depth, column, columns, right);
        for (std::int64_t row = top; row < top + band; row += row_part) {
          const std::int64_t rows = std::min(row_part, top + band - row);
          const RowMajor<float> out =
              p.wide ? RowMajor<float>{static_cast<float*>(p.c) + row * p.ldc + column, p.ldc}
                     : RowMajor<float>{whole ? sums : sums + (row - top) * sums_ld, sums_ld};
          Kernel::multiply(rows, columns, depth,
                           Kernel::pack_left(p, row, rows, first, depth, left), right,
                           first > 0 || (p.wide && p.add), out);
          if constexpr (!std::is_same_v<T, float>)
            if (!p.wide && last)
              for (std::int64_t r = 0; r < rows; ++r)
                Kernel::round(out.data + r * out.ld, columns,
                              static_cast<T*>(p.c) + (row + r) * p.ldc + column);
        }
        first += depth;
      } while (first < p.k);
    }
  }
};

}  // namespace hgt::cpu
