#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hgtrain/parallel/pipeline_time.h"
#include "hgtrain/parallel/verify.h"

namespace hgt {

/// Executes the transfers between the stages of a pipeline symbolically. They are unbuffered: a
/// transfer is over once both ends have started it, and the transfers of a direction between two
/// stages match in order. A forward waits for its input, a backward (of the input, if it is split)
/// for its gradient; a slot's memory is written again only once what is sent from it has arrived.
/// The update holds every stage until all have reached it; a sum or copy of a tied embedding does
/// so for its two stages. Returns "" if every stage reaches its end and both ends of each transfer
/// mean the same micro-batch; else what is wrong.
std::string find_transfer_fault(std::span<const ScheduledRank> stages);

/// The time at which the last stage ends if block b computes for `blocks[b]` and nothing else takes
/// time. The schedules must be sound.
double pipeline_time(std::span<const ScheduledRank> stages, std::span<const BlockTime> blocks);

/// A stage's actions in an evaluation of some micro-batches, in rounds.
Schedule evaluation_of(const StepShape& shape, std::int64_t micro_batches);

/// find_transfer_fault for the steps and evaluations of the pipeline of which `shape` is a stage
/// and `schedule` that stage's steps. The other stages' schedules are made here.
std::string find_transfer_fault(const StepShape& shape, const Schedule& schedule);

}  // namespace hgt
