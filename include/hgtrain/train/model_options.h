#pragma once

#include "hgtrain/comm/groups.h"
#include "hgtrain/model/model.h"
#include "hgtrain/parallel/schedule.h"

namespace hgt {

struct Config;

/// The options with which a job's whole model is constructed.
Model::Options model_options(const Config& config);
/// The options of a rank whose steps have this shape; the groups are the rank's.
Model::Options model_options(const Config& config, const StepShape& shape, const Groups& groups);

}  // namespace hgt
