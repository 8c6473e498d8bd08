#pragma once

#include <span>

#include "hgtrain/train/trainer.h"

namespace hgt {

/// Throws Error(kCheck) because the loss or a gradient of the step is not finite. It names the
/// first weight, or else the first gradient, that is not finite, in the order of the model's
/// parameters. All ranks call it together, each with the slices that it updates. All throw the same
/// error, the rank that has that tensor (or the first of several) before the others.
[[noreturn]] void stop_at_bad_tensor(const Trainer::Parts& parts, std::span<const Slice> updated,
                                     Stream updates, const StepResult& result);

}  // namespace hgt
