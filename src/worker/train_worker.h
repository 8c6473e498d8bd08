#pragma once

#include <string>

namespace hgt {

/// `hgtrain-worker train`: joins the job that the environment describes and trains. Returns the
/// exit status; an error is reported up the control channel and to stderr, not thrown.
int train_worker(const std::string& run_dir, const std::string& resume);

}  // namespace hgt
