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
  std::int32_t tensor;      ///< the number of the (first) parameter in it
  std::int32_t decay;       ///< 1: its elements have weight decay
  bool operator==(const FlatPiece&) const = default;
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
