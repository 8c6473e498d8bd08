#pragma once

#include <cstdint>

#include "hgtrain/base/dtype.h"

namespace hgt {

// What kernels know of the flat buffers, as plain data.

/// A part of the flat layout that one thread block or thread works on. Every piece of a model has
/// one owner, so that a result per piece does not depend on the number of ranks.
struct FlatPiece {
  static constexpr std::int64_t kMaxElements = 1 << 14;

  std::int64_t begin, end;  ///< elements, counted from the start of the flat layout
  std::int64_t local;       ///< place of the first one in buffers of all the rank's blocks
  std::int64_t in_shard;    ///< its place in the shard of the rank that owns it
  std::int64_t number;      ///< in the order of the whole layout, the same on every rank
  std::int32_t tensor;      ///< the number of its parameter
  std::int32_t decay;       ///< 1: its elements have weight decay

  // These make random numbers independent of how parameters are split: the number of the
  // parameter's stream, and the place of the rank's part in the whole parameter (arch/split.h).
  // Element e of the part is element e / chunk * period + shift + e % chunk of the whole parameter.
  std::uint64_t stream = 0;
  std::int64_t origin = 0;  ///< where the part begins in the flat layout
  std::int64_t chunk = std::int64_t{1} << 62, period = chunk, shift = 0;

  bool operator==(const FlatPiece&) const = default;
};

/// The places in the whole parameter of a piece's elements, one after the other.
struct WholeElement {
  std::int64_t index;  ///< in the whole parameter
  std::int64_t run;    ///< how many elements from this one on are neighbours there, too

  /// The place of the piece's element `element`, counted from the beginning of the piece.
  constexpr WholeElement(const FlatPiece& piece, std::int64_t element) {
    const std::int64_t e = piece.begin + element - piece.origin, chunk = e / piece.chunk;
    index = chunk * piece.period + piece.shift + e - chunk * piece.chunk;
    run = (chunk + 1) * piece.chunk - e;
  }
  /// `count` elements further, at most `run`.
  constexpr void advance(const FlatPiece& piece, std::int64_t count) {
    index += count;
    run -= count;
    if (run > 0) return;
    index += piece.period - piece.chunk;
    run = piece.chunk;
  }
};

/// Values of the flat layout: of all blocks of a rank, one after the other, or of its shard alone.
/// Without data there are none.
struct FlatValues {
  void* data = nullptr;
  DType type = DType::kF32;
  bool sharded = false;

  /// The index of a piece's first value.
  constexpr std::int64_t place(const FlatPiece& piece) const {
    return sharded ? piece.in_shard : piece.local;
  }
};

}  // namespace hgt
