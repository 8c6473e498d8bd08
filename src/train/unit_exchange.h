#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hgtrain/comm/communicator.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/ops/update.h"
#include "hgtrain/parallel/rank_plan.h"
#include "hgtrain/train/flat_buffers.h"
#include "hgtrain/train/unit_slots.h"

#include "wait_clock.h"

namespace hgt {

/// Gathers the units' parameters and sums their gradients over the ranks, as the actions of a
/// schedule say. Collectives are started; what needs their result waits for it. All ranks make the
/// same calls in the same order, except for the waits.
class UnitExchange {
 public:
  /// The references outlive this object. `update`, in memory of the stream's device, says whether
  /// the run is halted.
  UnitExchange(const RankPlan& plan, const FlatBuffers& buffers, const UnitSlots& slots,
               Communicator& comm, Stream stream, const Update* update, WaitClock& clock);
  /// Waits for what is on its way, because it uses the buffers; not if the communicator failed.
  ~UnitExchange();
  UnitExchange(const UnitExchange&) = delete;
  UnitExchange& operator=(const UnitExchange&) = delete;

  /// A step begins: the gradients are 0. If the run is halted, this rank's part of them stays.
  void clear_gradients();

  // Actions.
  void gather(int unit);
  void release(int unit);
  void clear(int unit);
  void reduce(int unit);
  void accumulate(int unit);

  /// Waits until the parameters that a block reads are there.
  void require_parameters(int block);
  /// Waits for the sums that were started.
  void wait_for_sums();
  /// Waits for all that was started.
  void wait_for_all();

 private:
  struct UnitState {
    std::vector<OwnedRange> owners;                    ///< counted from the unit's begin
    std::vector<OwnedRange> weight_bytes;              ///< the same in bytes of the weights
    std::vector<Slice> own;                            ///< this rank's slices of it
    std::optional<std::uint64_t> gathering, reducing;  ///< tickets
    bool has_sum = false;  ///< its part of the shard has a sum of this step
  };
  UnitState& state(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  void wait(std::optional<std::uint64_t>& ticket);
  /// The part of a unit's tensor that a slice of this rank is.
  Tensor part_of(const Tensor& unit_values, int unit, const Slice& slice) const;

  const RankPlan& plan_;
  const FlatBuffers& buffers_;
  const UnitSlots& slots_;
  Communicator& comm_;
  const Stream stream_;
  const Update* const update_;
  WaitClock& clock_;
  std::vector<UnitState> units_;
};

}  // namespace hgt
