#pragma once

#include <string>

#include "train_plan.h"

namespace hgt {

/// What is about to be trained, in a few lines, for the start of a run.
std::string banner(const TrainPlan& plan, const std::string& run_dir);

/// For --dry_run: the same and the layout, then each parameter (those of equal layers on one line)
/// and the memory of a worker, and the resolved config. Where a GPU is named: whether it fits one.
std::string describe(const TrainPlan& plan, const std::string& run_dir, const std::string& gpu);

}  // namespace hgt
