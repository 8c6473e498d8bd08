#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hgtrain/launch/job.h"

namespace hgt {

/// What a job would do on its hosts, for a dry run: on which host and `device` each rank runs; the
/// command that reaches each host, and the one that each worker runs; the environment of each rank.
/// Does not contact the hosts: Error(kConfig) names those whose number of workers is not known.
std::string host_plan(JobSpec spec,
                      const std::function<std::string(const JobHost&, int local_rank)>& device);

/// A table of the GPUs that ranks of this machine use, if they use any: `devices` as in JobHost. ""
/// if programs see none here.
std::string local_gpus(int ranks, const std::vector<std::string>& devices);

/// A line for each variable that `change` sets or removes, and one that lists those whose values
/// are chosen at the start.
std::string environment_lines(const EnvironmentChange& change);

}  // namespace hgt
