#pragma once

#include <vector>

#include "hgtrain/parallel/schedule.h"

namespace hgt {

/// The forward or backward of a micro-batch through one of a rank's ranges of blocks. If the
/// backward is in two halves, kBackward stands for the first one.
struct Pass {
  Action::Kind kind;
  int range;
  int micro;
};

/// Whether all forwards come before the first backward.
bool holds_all(const PipelineStage& stage);

/// The passes of a stage that has `ranges` ranges of blocks, in their order. Micro-batches go
/// through the ranges in groups of as many as there are stages; the last group may have fewer.
std::vector<Pass> passes_of(const PipelineStage& stage, int ranges, int micros);

}  // namespace hgt
