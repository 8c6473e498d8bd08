#pragma once

#include <string>

#include "hgtrain/train/run.h"

namespace hgt {

/// `hgtrain-worker train`: joins the job that the environment describes and trains as the
/// resolved config in the file `config` says. Returns the exit status; an error is reported up the
/// control channel and to stderr, not thrown.
int train_worker(const std::string& config, const RunOptions& options);

}  // namespace hgt
