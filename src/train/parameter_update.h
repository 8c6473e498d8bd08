#pragma once

#include <cstdint>
#include <vector>

#include "hgtrain/optim/optimizer.h"
#include "hgtrain/optim/pieces.h"
#include "hgtrain/train/trainer.h"

#include "step_exchange.h"
#include "step_graphs.h"
#include "unit_exchange.h"
#include "wait_clock.h"

namespace hgt {

/// The update of a step: sums losses and gradient norm over the ranks, then clips, steps the
/// optimizer and moves the average.
class ParameterUpdate {
 public:
  /// The references outlive this object; `updates` is the stream of the buffers' home.
  ParameterUpdate(const Trainer::Parts& parts, const StepExchange& exchange, Stream updates);

  /// The part of an update that the optimizer knows; see Optimizer::constants.
  Update constants(const Rate& rate, std::int64_t number) const {
    return optimizer_.constants(rate, number);
  }
  /// Queues the update. Its constants have been sent, and the sums of the gradients that this rank
  /// needs are there. All ranks call it together.
  void queue(UnitExchange& units, WaitClock& clock);
  bool sums_squares() const { return sums_squares_; }
  StepGraphs& graphs() { return graphs_; }
  /// The slices that this rank updates.
  const std::vector<Slice>& slices() const { return updated_; }

 private:
  void sum_norms(const Tensor& parts, WaitClock& clock) const;
  void change_parameters(UnitExchange& units);
  void step_and_send(UnitExchange& units);
  Work traffic() const;

  const Trainer::Parts& parts_;
  const StepExchange& exchange_;
  const Stream updates_;
  const std::vector<Slice> updated_;
  const bool sums_squares_;  ///< over the ranks: none has all gradients
  Optimizer optimizer_;
  const Pieces squared_;  ///< the pieces whose squares this rank computes
  StepGraphs graphs_;
};

}  // namespace hgt
