#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hgtrain/comm/groups.h"
#include "hgtrain/device/stream.h"
#include "hgtrain/model/model.h"
#include "hgtrain/parallel/schedule.h"
#include "hgtrain/train/unit_slots.h"

#include "wait_clock.h"

namespace hgt {

/// Exchanges activations and their gradients between the stages of a pipeline, and a tied
/// embedding's weights and gradients between the first and the last stage, as the actions of a
/// schedule say. Actions start transfers; a computation that needs one waits for it. Does nothing
/// for a pipeline of one stage.
class PipelineExchange {
 public:
  /// The references outlive this object.
  PipelineExchange(const StepShape& shape, Model& model, const UnitSlots& slots,
                   const Groups& groups, Stream stream, WaitClock& clock);
  /// Waits for the transfers under way, except for those of a communicator that failed.
  ~PipelineExchange();
  PipelineExchange(const PipelineExchange&) = delete;
  PipelineExchange& operator=(const PipelineExchange&) = delete;

  // Actions. `batch` is the micro-batch in the action's slot, or one of its size.
  void receive_input(const Action& action, const MicroBatch& batch);
  void send_output(const Action& action, const MicroBatch& batch);
  void receive_gradient(const Action& action, const MicroBatch& batch);
  void send_gradient(const Action& action, const MicroBatch& batch);
  void sum_tied();
  void copy_tied();

  /// Waits until the forward of a block may run: its input has arrived, and what was sent from the
  /// memory of its output has left.
  void before_forward(const Action& forward);
  void before_backward(const Action& backward);
  void wait_for_tie() { wait(groups_.tied, tied_); }
  /// Waits for all that was started.
  void wait_for_all();
  /// Call it when a step begins. Sets the gradients of the head's copy of the embedding to 0.
  void clear_gradients();

 private:
  using Ticket = std::optional<std::uint64_t>;
  /// The transfers under way for the micro-batch in a slot.
  struct Slot {
    Ticket input, output, input_gradient, output_gradient;
  };
  Slot& slot_of(const Action& action) { return slots_[static_cast<std::size_t>(action.slot)]; }
  static Ticket transfer(Communicator& comm, const Tensor& rows);
  void wait(Communicator* comm, Ticket& ticket);
  template <class Fn>
  void for_each_transfer(const Fn& fn);

  const StepShape& shape_;
  Model& model_;
  const Tensor tied_weights_, tied_gradients_;
  const Groups groups_;
  const Stream stream_;
  WaitClock& clock_;
  std::vector<Slot> slots_;
  Ticket tied_;
};

}  // namespace hgt
