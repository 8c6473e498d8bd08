#pragma once

#include <cstdint>
#include <immintrin.h>

// Intel's Advanced Matrix Extensions have eight registers of 16 rows of 64 bytes. An instruction
// multiplies 16 rows of 32 bf16 by 16 columns, whose numbers lie in pairs along the sum, as in
// tile_product.h's BFloat16Pair. Source: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 1, chapter 18.

namespace hgt::cpu {

constexpr std::int64_t kTileRows = 16, kTilePairs = 16;
constexpr std::int64_t kTileUnits = kTileRows * kTilePairs;  ///< of 32 bits: a pair, or a float

/// The thread's registers for as long as this lives. Meanwhile, nothing else may use them.
class TileRegisters {
 public:
  TileRegisters() {
    const Shapes shapes;
    _tile_loadconfig(&shapes);
  }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  /// What LDTILECFG reads.
  struct Shapes {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows,
                             kTileRows, kTileRows, kTileRows, kTileRows};
  };
};

/// Pairs in memory, from which tiles are read; distances are in units.
struct TileFactor {
  const float* data;
  std::int64_t ld;    ///< to the next row of a tile
  std::int64_t next;  ///< to the next tile along the sum
  std::int64_t half;  ///< to the other rows of the left factor, or columns of the right one
};

/// c = a b, or with `add` c += a b, for 32 rows and 32 columns of floats, which are `ld` apart;
/// `tiles` of each factor lie along the sum.
inline void multiply_tiles(std::int64_t tiles, TileFactor a, TileFactor b, bool add, float* c,
                           std::int64_t ld) {
  constexpr std::int64_t kUnitBytes = 4;
  const std::int64_t row = ld * kUnitBytes;
  float* const lower = c + kTileRows * ld;
  // Registers 0 to 3 hold c, 4 and 5 rows of a, 6 and 7 columns of b.
  if (add) {
    _tile_loadd(0, c, row);
    _tile_loadd(1, c + kTileRows, row);
    _tile_loadd(2, lower, row);
    _tile_loadd(3, lower + kTileRows, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t t = 0; t < tiles; ++t, a.data += a.next, b.data += b.next) {
    _tile_loadd(6, b.data, b.ld * kUnitBytes);
    _tile_loadd(4, a.data, a.ld * kUnitBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b.data + b.half, b.ld * kUnitBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a.data + a.half, a.ld * kUnitBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, row);
  _tile_stored(1, c + kTileRows, row);
  _tile_stored(2, lower, row);
  _tile_stored(3, lower + kTileRows, row);
}

}  // namespace hgt::cpu
