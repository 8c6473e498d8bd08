#pragma once

#include <optional>
#include <string>

#include "plan_fit.h"
#include "train_plan.h"

namespace hgt {

/// A summary of the training in a few lines, for the start of a run.
std::string banner(const TrainPlan& plan, const std::string& run_dir);

/// For --dry_run: the same and the layout, then each parameter (those of equal layers on one line)
/// and the memory of a worker, and the resolved config.
std::string describe(const TrainPlan& plan, const std::string& run_dir,
                     const std::optional<PlanFit>& fit);

}  // namespace hgt
