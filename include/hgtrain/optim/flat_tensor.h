#pragma once

#include "hgtrain/ops/flat_piece.h"
#include "hgtrain/parallel/shards.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Values of the flat layout: of all blocks of a rank, one after the other, or of its shard alone.
struct FlatTensor {
  Tensor values;
  bool sharded = false;

  explicit operator bool() const { return static_cast<bool>(values); }
  /// The values of a slice of this rank.
  Tensor at(const Slice& slice) const {
    const std::int64_t begin = sharded ? slice.in_shard : slice.local;
    return values.slice(0, begin, begin + slice.elements.size());
  }
  /// The values of a piece of this rank; no tensor if there are no values.
  Tensor at(const FlatPiece& piece) const {
    return values ? at(Slice{{piece.begin, piece.end}, piece.local, piece.in_shard}) : Tensor();
  }
  /// The same as kernels take it.
  FlatValues raw() const { return {values.raw(), values.dtype(), sharded}; }
};

}  // namespace hgt
