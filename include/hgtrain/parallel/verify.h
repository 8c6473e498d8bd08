#pragma once

#include <span>
#include <string>

#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// A rank of the job to verify.
struct ScheduledRank {
  const StepShape* shape;
  const Schedule* schedule;
};

/// Executes the schedules of all ranks of a data-parallel group symbolically. Returns "" if
///
///   - all ranks start the same collectives in the same order, those of a tied embedding too, so
///   that none waits for ever;
///   - each micro-batch goes forward through the rank's blocks, then backward, alone in its slot,
///     and adds each of its contributions to a gradient exactly once, before that gradient is
///     summed; gradients of a tied embedding are summed over its two stages before that;
///   - if the backward is split, the weights' half of a block comes after the input's half, in the
///     order of the micro-batches, and no other micro-batch is in a slot that it reads;
///   - each sum is accumulated once before its slot is used again, and before the update; stages 0
///     and 1 sum each unit once, after the last contribution;
///   - a computation finds the parameters that it reads, every gathered unit is released before the
///     update, and stages 1 and 2 gather each unit once after it;
///   - each unit fits in its slot, and no two units are in one at a time;
///
/// else what is wrong: "rank 1, action 17 (R2): ...".
std::string find_fault(std::span<const ScheduledRank> ranks);

/// "" or the fault, as above, of a rank that has this schedule, in a job whose ranks have
/// max_micro_batches or one less; a rank of the other kind, whose schedule is made here, stands for
/// all others. In a pipeline, it also checks steps and evaluations for two more conditions: there
/// is no deadlock between stages, even if a sum or copy of the tied embedding and the update hold
/// each stage until the others are there; and what one stage sends is what the other expects. Takes
/// time and memory in proportion to the actions of all stages.
std::string find_fault(const StepShape& shape, const Schedule& schedule);

}  // namespace hgt
