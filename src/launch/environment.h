#pragma once

#include <map>
#include <string>
#include <vector>

#include "hgtrain/launch/job.h"

namespace hgt {

/// The environment of this process with worker_environment() and the values known only at the start
/// applied, as "NAME=value" for execve.
std::vector<std::string> full_environment(const EnvironmentChange& change,
                                          const std::map<std::string, std::string>& at_start);

/// The file into which a rank writes its error by torchelastic's convention; "" without a log
/// folder.
std::string error_file(const JobSpec& spec, int rank);
/// Where a rank's output is logged; "" without a log folder.
std::string log_file(const JobSpec& spec, int rank);

/// The PATH the workers get.
std::string search_path(const JobSpec& spec);

}  // namespace hgt
