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

/// `elements`, cut at multiples of `range_elements` of the tensor.
std::vector<Range> ranges_of(Range elements, std::int64_t range_elements);

/// Assembles tensors of which each rank of a tensor-parallel group has a part that consists of
/// short runs.
class PartExchange {
 public:
  static constexpr std::int64_t kBytes = kCheckpointExchangeBytes / 2;  ///< the largest range
  explicit PartExchange(Communicator* group) : group_(group) {}
  /// All ranks of the group have the same elements of their parts, which lie as `of_ranks` says.
  /// Their values are exchanged range by range. Calls visit(contiguous elements of the tensor) for
  /// the ranges that are this rank's; the values stay only during the call.
  void assemble(const TensorPart& part, std::span<const Placement> of_ranks,
                const std::function<void(const TensorPart&)>& visit);

 private:
  /// Gathers the range's elements into gathered_, rank after rank.
  void gather(const TensorPart& part, std::span<const Placement> of_ranks, Range range);
  /// Copies them from there into assembled_, in their order in the tensor.
  void unpack(const TensorPart& part, std::span<const Placement> of_ranks, Range range);
  Communicator* const group_;
  Buffer gathered_, assembled_;
  std::int64_t turn_ = 0;  ///< ranges so far; the ranks take turns to get one
};

}  // namespace hgt
