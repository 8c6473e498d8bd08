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

#include "host_copies.h"
#include "sent_gradients.h"
#include "wait_clock.h"

namespace hgt {

/// Gathers the units' parameters and sums their gradients over the ranks, as the actions of a
/// schedule say. Actions start collectives; a computation that needs a result waits for it. All
/// ranks make the same calls in the same order, except for the waits.
///
/// If gradients or parameters are offloaded, they are copied meanwhile: a unit's part of the sum to
/// the host after its reduction; the part to gather, or what an update has changed, to the device.
class UnitExchange {
 public:
  /// The references outlive this object. `update`, in memory of the buffers' home, says whether the
  /// run is halted. Gradients are sent as `sent`, fp32, bf16 or fp16. If `losses_follow`, the
  /// caller sums the losses over `comm` after the gradients, and need not wait for these:
  /// collectives end in the order in which they began.
  UnitExchange(const RankPlan& plan, const FlatBuffers& buffers, const UnitSlots& slots,
               Communicator& comm, Stream stream, const Update* update, WaitClock& clock,
               DType sent, bool losses_follow);
  /// Waits for collectives under way, because they use the buffers, unless the communicator failed.
  ~UnitExchange();
  UnitExchange(const UnitExchange&) = delete;
  UnitExchange& operator=(const UnitExchange&) = delete;

  /// Call it when a step begins. Sets the gradients to 0. If the run is halted, this rank's part of
  /// them stays.
  void clear_gradients();

  // Actions.
  void gather(int unit);
  void release(int unit);
  void clear(int unit);
  void reduce(int unit);
  void accumulate(int unit);

  /// Waits until the parameters that a block reads have arrived.
  void require_parameters(int block);
  /// Waits for the sums that were started, unless the losses follow. If they are offloaded, the
  /// host waits, also for all other work of the stream.
  void wait_for_sums();
  /// Starts to send a unit's updated weights to the device; only if buffers.sends_weights().
  void send(int unit);
  /// Work queued on the stream from now on runs after the weights have arrived.
  void finish_sending();
  /// Waits for everything that was started.
  void wait_for_all();

 private:
  struct UnitState {
    std::vector<OwnedRange> owners;                    ///< counted from the unit's begin
    std::vector<OwnedRange> weight_bytes;              ///< the same in bytes of the weights
    std::vector<Slice> own;                            ///< this rank's slices of the unit
    std::optional<std::uint64_t> gathering, reducing;  ///< tickets
    bool is_arriving = false;                          ///< weights are on their way from the host
    bool has_sum = false;  ///< the shard holds a sum of this step for the unit
  };
  UnitState& state(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  void copy_own_weights(int unit);
  void copy_to_host(int unit, std::uint64_t ticket);
  void wait_for_weights(int unit);
  void wait_for_sum(int unit);
  void take_back_sum(int unit, Stream stream);
  void wait(std::optional<std::uint64_t>& ticket);
  void wait(const CudaEvent& copy);
  /// The part of a unit's tensor that a slice of this rank is.
  Tensor part_of(const Tensor& unit_values, int unit, const Slice& slice) const;

  const RankPlan& plan_;
  const FlatBuffers& buffers_;
  const UnitSlots& slots_;
  Communicator& comm_;
  const Stream stream_;
  const Update* const update_;
  WaitClock& clock_;
  const SentGradients sent_;
  const bool losses_follow_;
  std::vector<UnitState> units_;
  Buffer earlier_sum_;              ///< of a slice, on its way back from the host
  std::optional<HostCopies> host_;  ///< if anything is offloaded
};

}  // namespace hgt
