#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/flat_piece.h"
#include "hgtrain/parallel/shards.h"

namespace hgt {

/// The pieces of the flat layout of a tensor rank, in ascending order: its chunks
/// (Sharding::kChunk), cut at the tensors' ends. They cover the tensors, without the padding.
std::vector<FlatPiece> tensor_pieces(const ParameterTable& table, TensorRank at = {});
/// The pieces of tensor_pieces() that no earlier tensor rank has, too, so that each counts once in
/// a sum over all ranks.
std::vector<FlatPiece> first_copies(std::vector<FlatPiece> pieces, const ParameterTable& table,
                                    TensorRank at);
/// The pieces in a rank's slices, with their places in its buffers.
std::vector<FlatPiece> pieces_in(std::span<const FlatPiece> pieces, std::span<const Slice> slices);

/// The pieces that a rank works on.
class Pieces {
 public:
  /// `all` are the pieces of the table. Blocks until the rank's pieces lie on the stream's device.
  Pieces(std::span<const FlatPiece> all, std::span<const Slice> slices, Stream stream);
  /// The rank's own pieces, in memory of the stream's device.
  std::span<const FlatPiece> own() const { return own_.as<const FlatPiece>(); }
  /// The own pieces in a range of whole blocks, if they lie in host memory.
  std::span<const FlatPiece> own_in(Range elements) const;
  /// The number of pieces of all ranks together; they are numbered 0, 1, ...
  std::int64_t total() const { return total_; }
  /// Elements of the rank's pieces.
  std::int64_t own_elements() const { return own_elements_; }

 private:
  std::int64_t total_, own_elements_ = 0;
  Buffer own_;
};

}  // namespace hgt
