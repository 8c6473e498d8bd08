#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hgtrain/parallel/range.h"

namespace hgt {

/// Consecutive blocks whose parameters are gathered, and whose gradients are summed, in one
/// collective.
struct Unit {
  Range blocks;
  Range elements;  ///< their part of the flat layout
  bool operator==(const Unit&) const = default;
};

/// Cuts the model, whose blocks are given in ascending order without gaps, into units, in ascending
/// order. A unit has at most `max_elements`, or a single block. If `first_alone`, block 0 is a unit
/// of its own.
std::vector<Unit> make_units(std::span<const Range> blocks, std::int64_t max_elements,
                             bool first_alone = false);

/// One thing for a rank to do. `block` and `micro` (counted within the rank), or `unit`, say what
/// it applies to. A collective is started; what needs its result waits for it.
struct Action {
  enum class Kind {
    kForward,     ///< block, micro
    kBackward,    ///< block, micro
    kGather,      ///< unit: start gathering its parameters from the ranks that own them
    kRelease,     ///< unit: its parameters are not needed any more
    kClear,       ///< unit: its gradients become 0
    kReduce,      ///< unit: start the sum of its gradients over the ranks
    kAccumulate,  ///< unit: wait for the sum, and add this rank's part of it to its shard
    kUpdate,      ///< wait for the sums, then clip and step the optimizer
  };
  Kind kind = Kind::kUpdate;
  int block = 0;
  int micro = 0;
  int unit = 0;
  bool operator==(const Action&) const = default;
};

/// "F3.0": forward of block 3, micro-batch 0. B: backward; G2: gather unit 2; X: release; C: clear;
/// R: reduce; A: accumulate; U: update.
std::string text_of(const Action& action);

/// What a rank's schedule follows from. All ranks have equal values except for `micro_batches`.
struct StepShape {
  int stage = 0;  ///< of ZeRO; see Schedule
  std::vector<Unit> units;
  bool tied = false;                    ///< the head also uses the parameters of block 0
  std::int64_t micro_batches = 1;       ///< of this rank
  std::int64_t most_micro_batches = 1;  ///< of any rank: all ranks take part in as many sums
  int parameter_slots = 2;              ///< stage 3: at least 1
  int gradient_slots = 2;               ///< stages 2 and 3: at least 1

  bool gathers_after_update() const { return stage == 1 || stage == 2; }
  int num_blocks() const { return static_cast<int>(units.back().blocks.end); }
  int unit_of(int block) const;
};

/// A step's actions, and where units lie meanwhile.
///
///   stage 0  every rank has all parameters and gradients. A unit is summed once the rank's last
///            micro-batch completes its gradients.
///   stage 1  the same, but a rank gets only its part of the sum and updates only its part of the
///            parameters; these are gathered after the update.
///   stage 2  gradients lie in slots: a unit is cleared before its first gradient of a micro-batch,
///            summed after its last, and accumulated before its slot is used again.
///   stage 3  parameters, too: a unit is gathered ahead of its use, and released when its slot is
///            needed for another one, or at the end.
///
/// A unit has a fixed slot. If the embedding is tied, unit 0 has one of its own, because its
/// gradients begin in the head and its parameters are used there.
/// Source: Rajbhandari et al. 2020, arXiv:1910.02054.
struct Schedule {
  std::vector<Action> actions;
  std::vector<int> parameter_slots;  ///< of each unit; empty before stage 3
  std::vector<int> gradient_slots;   ///< of each unit; empty before stage 2
};

Schedule make_schedule(const StepShape& shape);

/// The elements of each slot, if `slots` has that of each unit: those of its largest unit.
std::vector<std::int64_t> slot_elements(const StepShape& shape, const std::vector<int>& slots);

/// The actions of an evaluation of one micro-batch, with the same slots: forwards, in stage 3 with
/// gathers and releases. If not `computes`, the rank only takes part in the gathers.
std::vector<Action> make_evaluation(const StepShape& shape, bool computes);

}  // namespace hgt
