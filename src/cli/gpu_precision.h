#pragma once

#include "hgtrain/config/load.h"

namespace hgt {

/// Settles "auto" of bf16 and fp16 by the compute capability of the oldest of a job's GPUs (90 is
/// 9.0); one that is not known, 0, is taken to have bf16. Error(kConfig) where bf16 is asked of one
/// that has it not.
void settle_precision(const LoadResult& loaded, int compute_capability, PrecisionConfig& precision);

}  // namespace hgt
