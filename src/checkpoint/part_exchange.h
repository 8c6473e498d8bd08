#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hgtrain/arch/memory.h"
#include "hgtrain/checkpoint/safetensors.h"
#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/buffer.h"

namespace hgt {

/// `elements`, cut at multiples of `block_elements` of the tensor.
std::vector<Range> blocks_of(Range elements, std::int64_t block_elements);

/// Puts tensors together of which each rank of a tensor-parallel group has a part with short runs.
class PartExchange {
 public:
  static constexpr std::int64_t kBytes = kCheckpointExchangeBytes / 2;  ///< of a block at most
  explicit PartExchange(Communicator* group) : group_(group) {}
  /// All ranks of the group have the same elements of their parts, which lie as `of_ranks` says.
  /// Their values are exchanged block by block. Calls visit(contiguous elements of the tensor) for
  /// the blocks that are this rank's; the values stay only during the call.
  void assemble(const TensorPart& part, std::span<const Placement> of_ranks,
                const std::function<void(const TensorPart&)>& visit);

 private:
  /// Brings the block's elements into gathered_, those of each rank after those of the ranks
  /// before.
  void gather(const TensorPart& part, std::span<const Placement> of_ranks, Range block);
  /// Brings them from there into assembled_, in their order in the tensor.
  void unpack(const TensorPart& part, std::span<const Placement> of_ranks, Range block);
  Communicator* const group_;
  Buffer gathered_, assembled_;
  std::int64_t turn_ = 0;  ///< blocks so far, of which each rank in turn gets one
};

}  // namespace hgt
