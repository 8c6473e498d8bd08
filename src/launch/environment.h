#pragma once

#include <map>
#include <string>
#include <vector>

#include "hgtrain/launch/job.h"

namespace hgt {

/// worker_environment() and what is only known at the start, applied to the environment of this
/// process: "NAME=value" for execve.
std::vector<std::string> full_environment(const EnvironmentChange& change,
                                          const std::map<std::string, std::string>& at_start);

/// Where a rank leaves an error for torchelastic's convention; "" without a log folder.
std::string error_file(const JobSpec& spec, int rank);
/// Where a rank's output is logged; "" without a log folder.
std::string log_file(const JobSpec& spec, int rank);

/// The PATH the workers get.
std::string search_path(const JobSpec& spec);

}  // namespace hgt
