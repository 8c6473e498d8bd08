#pragma once

#include <algorithm>
#include <cstdint>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

// Products of small matrices that lie in the caches. The caller packs the operands, because it uses
// a packed matrix many times.

namespace hgt::cpu {

// What follows differs from one instruction set to the next, and a program may have several.
#if defined(__AVX512F__)
inline namespace avx512 {
#elif defined(__AVX__)
inline namespace avx {
#else
inline namespace portable {
#endif

/// Results are computed in panels that fit the registers: some rows by some vectors of columns.
#if defined(__AVX512F__)
constexpr std::int64_t kVectorFloats = 16, kPanelRows = 8;
#elif defined(__AVX__)
constexpr std::int64_t kVectorFloats = 8, kPanelRows = 4;
#else
constexpr std::int64_t kVectorFloats = 4, kPanelRows = 4;
#endif

/// A register; its memory needs no alignment.
using Vector = float __attribute__((vector_size(4 * kVectorFloats), aligned(4), may_alias));

inline Vector& vector_at(float* x) {
  return *reinterpret_cast<Vector*>(x);
}
inline Vector vector_at(const float* x) {
  return *reinterpret_cast<const Vector*>(x);
}
inline Vector all_of(float x) {
  return x - Vector{};
}

/// The factors of products are units of 32 bits. Here each is a float.
struct FloatUnit {
  static constexpr std::int64_t kElements = 1;
  static Vector multiply_add(Vector a, Vector b, Vector sum) { return a * b + sum; }
  /// Units of neighbours in a row, or in a column, of x [rows, columns], as factors of a product
  /// that sums over columns, or over rows. They are written to `out` unless they are x itself.
  static const float* across(const float* x, std::int64_t, std::int64_t, float*) { return x; }
  static const float* along(const float* x, std::int64_t, std::int64_t, float*) { return x; }
};

#if defined(__AVX512BF16__)
/// Numbers of 16 bits, as many as a register has floats.
using Halves = std::uint16_t __attribute__((vector_size(2 * kVectorFloats)));

/// Pairs of neighbours along a sum: the low halves of units, and the high ones. GCC would widen
/// vectors of 512 bits in two steps.
inline Vector interleaved(Halves low, Halves high) {
  constexpr __mmask16 kAll = 0xffff;
  const __m512i first = _mm512_maskz_cvtepu16_epi32(kAll, (__m256i)low);
  const __m512i second = _mm512_maskz_cvtepu16_epi32(kAll, (__m256i)high);
  return (Vector)(first | _mm512_maskz_slli_epi32(kAll, second, 16));
}

/// Each unit is two bf16 that are neighbours along the sum; a row of units takes as much memory as
/// one of floats.
struct BFloat16Pair {
  static constexpr std::int64_t kElements = 2;
  static Vector multiply_add(Vector a, Vector b, Vector sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  static const float* across(const float* x, std::int64_t rows, std::int64_t columns, float* out) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; c += kVectorFloats)
        *reinterpret_cast<__m256bh*>(out + r * columns + c / 2) =
            _mm512_cvtneps_pbh(vector_at(x + r * columns + c));
    return out;
  }
  static const float* along(const float* x, std::int64_t rows, std::int64_t columns, float* out) {
    for (std::int64_t r = 0; r < rows; r += 2)
      for (std::int64_t c = 0; c < columns; c += kVectorFloats)
        vector_at(out + r / 2 * columns + c) =
            interleaved((Halves)_mm512_cvtneps_pbh(vector_at(x + r * columns + c)),
                        (Halves)_mm512_cvtneps_pbh(vector_at(x + (r + 1) * columns + c)));
    return out;
  }
};
#endif

/// The left factor: unit k of row r is data[r * row_stride + k * unit_stride].
struct LeftFactor {
  const float* data;
  std::int64_t row_stride, unit_stride;
};
/// The right factor (row k has the units k of all columns) or the result: row-major.
template <class T>
struct RowMajor {
  T* data;
  std::int64_t ld;
};

/// kPanelRows rows of c = a b, or with `add` c += a b; `depth` units are summed over.
template <class Unit, int vectors>
void multiply_panel(std::int64_t depth, LeftFactor a, RowMajor<const float> b, bool add,
                    RowMajor<float> c) {
#pragma GCC unroll 8
  for (int r = 0; r < kPanelRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(c.data + r * c.ld + v * kVectorFloats, 1);
  Vector sums[kPanelRows][vectors] = {};
#pragma GCC unroll 4
  for (std::int64_t k = 0; k < depth; ++k) {
    Vector right[vectors];
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) right[v] = vector_at(b.data + k * b.ld + v * kVectorFloats);
#pragma GCC unroll 8
    for (int r = 0; r < kPanelRows; ++r) {
      const Vector left = all_of(a.data[r * a.row_stride + k * a.unit_stride]);
#pragma GCC unroll 3
      for (int v = 0; v < vectors; ++v) sums[r][v] = Unit::multiply_add(left, right[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kPanelRows; ++r)
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
      Vector& out = vector_at(c.data + r * c.ld + v * kVectorFloats);
      out = add ? out + sums[r][v] : sums[r][v];
    }
}

/// out = x, or with `add` out += x, for the rows and columns of a panel that lie in the result.
inline void put_part(RowMajor<const float> x, std::int64_t rows, std::int64_t columns, bool add,
                     RowMajor<float> out) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      float& to = out.data[r * out.ld + c];
      to = add ? to + x.data[r * x.ld + c] : x.data[r * x.ld + c];
    }
}

/// out[c, r] = x[r, c] for a square of units, kVectorFloats wide.
inline void transpose_square(RowMajor<const float> x, RowMajor<float> out) {
  using Indices = std::int32_t __attribute__((vector_size(4 * kVectorFloats)));
  Indices low, high;  // first and last halves of two interleaved vectors
  for (int i = 0; i < kVectorFloats; ++i) {
    low[i] = static_cast<std::int32_t>(i / 2 + i % 2 * kVectorFloats);
    high[i] = static_cast<std::int32_t>(low[i] + kVectorFloats / 2);
  }
  Vector rows[kVectorFloats], mixed[kVectorFloats];
  for (int r = 0; r < kVectorFloats; ++r) rows[r] = vector_at(x.data + r * x.ld);
  // A round moves the next bit of the row's index to the column's: one round per bit.
  for (int round = 1; round < kVectorFloats; round *= 2) {
    for (int i = 0; i < kVectorFloats / 2; ++i) {
      mixed[2 * i] = __builtin_shuffle(rows[i], rows[i + kVectorFloats / 2], low);
      mixed[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kVectorFloats / 2], high);
    }
    std::copy(mixed, mixed + kVectorFloats, rows);
  }
  for (int r = 0; r < kVectorFloats; ++r) vector_at(out.data + r * out.ld) = rows[r];
}

}  // inline namespace
}  // namespace hgt::cpu
