#pragma once

#include "hgtrain/parallel/shards.h"
#include "hgtrain/tensor/tensor.h"

namespace hgt {

/// Values of the flat layout: of all its elements, or of one rank's shard alone.
struct FlatTensor {
  Tensor values;
  bool sharded = false;

  explicit operator bool() const { return static_cast<bool>(values); }
  /// The values of a slice of this rank.
  Tensor at(const Slice& slice) const {
    const std::int64_t begin = sharded ? slice.local : slice.elements.begin;
    return values.slice(0, begin, begin + slice.elements.size());
  }
};

}  // namespace hgt
