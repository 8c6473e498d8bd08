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
/// The update holds every stage until all are there, what a tied embedding needs each of its two.
/// Returns "" if every stage comes to its end and each transfer is that of the same micro-batch at
/// both ends; else what is wrong.
std::string find_transfer_fault(std::span<const ScheduledRank> stages);

/// When the last stage ends, if block b computes for `blocks[b]` and nothing else takes time. The
/// schedules are sound.
double pipeline_time(std::span<const ScheduledRank> stages, std::span<const BlockTime> blocks);

/// A stage's actions in an evaluation of some micro-batches, in rounds.
Schedule evaluation_of(const StepShape& shape, std::int64_t micro_batches);

/// find_transfer_fault for steps and evaluations of the pipeline of which `shape` is a stage, which
/// has this schedule of its steps. The other stages' are made here.
std::string find_transfer_fault(const StepShape& shape, const Schedule& schedule);

}  // namespace hgt
