#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "hgtrain/base/fetch.h"

// Intel's Advanced Matrix Extensions have eight registers of 16 rows of 64 bytes. An instruction
// multiplies 16 rows of 32 bf16 by 16 columns, whose numbers lie in pairs along the sum, as in
// tile_product.h's BFloat16Pair. Source: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, chapter 18.

namespace hgt::cpu {

constexpr std::int64_t kAmxRows = 16, kAmxPairs = 16;
constexpr std::int64_t kAmxUnits = kAmxRows * kAmxPairs;  ///< of 32 bits: a pair, or a float
constexpr std::int64_t kAmxDepth = 2 * kAmxPairs;         ///< numbers along the sum
constexpr std::int64_t kAmxPanel = 2 * kAmxRows;          ///< rows, and columns, of multiply_amx

/// The thread's registers for as long as this lives. Meanwhile, nothing else may use them.
class AmxRegisters {
 public:
  AmxRegisters() {
    // Not a local one: GCC believes that only 8 bytes are read, and may leave out the others.
    static constexpr Shapes kShapes;
    _tile_loadconfig(&kShapes);
  }
  ~AmxRegisters() { _tile_release(); }
  AmxRegisters(const AmxRegisters&) = delete;
  AmxRegisters& operator=(const AmxRegisters&) = delete;

 private:
  /// What LDTILECFG reads.
  struct Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {kAmxRows, kAmxRows, kAmxRows, kAmxRows,
                             kAmxRows, kAmxRows, kAmxRows, kAmxRows};
  };
};

/// Pairs in memory, from which tiles are read; distances are in units.
struct AmxFactor {
  const float* data;
  std::int64_t ld;    ///< to the next row of a tile
  std::int64_t next;  ///< to the next tile along the sum
  std::int64_t half;  ///< to the other rows of the left factor, or columns of the right one
};

/// A product of one part of each factor; part 0 is the largest.
struct AmxTerm {
  int a, b;
};
/// The terms that make up a product of factors that are sums of `parts`. Each has a part in common
/// with the one before, which stays in its registers, and the largest is the last one. Of three
/// parts, the smallest terms are left out.
template <int parts>
inline constexpr std::array<AmxTerm, 1> kAmxTerms{{{0, 0}}};
template <>
inline constexpr std::array<AmxTerm, 4> kAmxTerms<2>{{{0, 1}, {1, 1}, {1, 0}, {0, 0}}};
template <>
inline constexpr std::array<AmxTerm, 6> kAmxTerms<3>{
    {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}}};

/// c = a b, or with `add` c += a b, for 32 rows and 32 columns of floats, which are `ld` apart;
/// `tiles` of each factor lie along the sum. The tile of the first part is followed by those of
/// the others. Meanwhile, as many rows of `coming` are fetched into the second-level cache.
template <int parts>
void multiply_amx(std::int64_t tiles, AmxFactor a, AmxFactor b, bool add, float* c, std::int64_t ld,
                  const float* coming = nullptr) {
  constexpr std::int64_t kUnitBytes = 4;
  constexpr const auto& kTerms = kAmxTerms<parts>;
  constexpr std::int64_t kTermsPerStore = 24, kTilesPerStore = kTermsPerStore / kTerms.size();
  const std::int64_t row = ld * kUnitBytes;
  float* const lower = c + kAmxRows * ld;
  // GCC's loads of tiles do not tell it that they read memory: what was written to a and b before
  // must be there.
  asm volatile("" : : "r"(a.data), "r"(b.data), "r"(c) : "memory");
  // Registers 0 to 3 hold c, 4 and 5 rows of a, 6 and 7 columns of b.
  if (add) {
    _tile_loadd(0, c, row);
    _tile_loadd(1, c + kAmxRows, row);
    _tile_loadd(2, lower, row);
    _tile_loadd(3, lower + kAmxRows, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  // A store that waits for more than 128 instructions that multiply takes some 800 cycles more
  // (measured on a Xeon with AMX). Sums of one part are shorter.
  alignas(64) float unused[kAmxUnits];
  std::int64_t fetched = coming ? 0 : kAmxPanel;
  for (std::int64_t t = 1; t <= tiles; ++t, a.data += a.next, b.data += b.next) {
#pragma GCC unroll 6
    for (std::size_t i = 0; i < kTerms.size(); ++i) {
      const bool new_a = i == 0 || kTerms[i].a != kTerms[i - 1].a;
      const bool new_b = i == 0 || kTerms[i].b != kTerms[i - 1].b;
      const float* const left = a.data + kTerms[i].a * kAmxUnits;
      const float* const right = b.data + kTerms[i].b * kAmxUnits;
      if (new_b) _tile_loadd(6, right, b.ld * kUnitBytes);
      if (new_a) _tile_loadd(4, left, a.ld * kUnitBytes);
      _tile_dpbf16ps(0, 4, 6);
      if (new_b) _tile_loadd(7, right + b.half, b.ld * kUnitBytes);
      _tile_dpbf16ps(1, 4, 7);
      if (new_a) _tile_loadd(5, left + a.half, a.ld * kUnitBytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    // A few at a time: loads of tiles would wait for many.
    for (; fetched < kAmxPanel && fetched * tiles < kAmxPanel * t; ++fetched)
      fetch<2>(coming + fetched * ld, kAmxPanel);
    if (parts > 1 && t % kTilesPerStore == 0) _tile_stored(3, unused, kAmxPairs * kUnitBytes);
  }
  _tile_stored(0, c, row);
  _tile_stored(1, c + kAmxRows, row);
  _tile_stored(2, lower, row);
  _tile_stored(3, lower + kAmxRows, row);
}

}  // namespace hgt::cpu
