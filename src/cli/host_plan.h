#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hgtrain/launch/job.h"

namespace hgt {

/// What a job would do on its hosts, for a dry run: on which host and `device` each rank runs; the
/// command that reaches each host, as lines of a shell, and the one that each worker runs; the
/// environment of each rank. Does not contact the hosts: Error(kConfig) names those whose number of
/// workers is not known.
std::string host_plan(JobSpec spec,
                      const std::function<std::string(const JobHost&, int local_rank)>& device);

/// A table of the GPUs that ranks of this machine use, if they use any: `devices` as in JobHost. ""
/// if programs see none here.
std::string local_gpus(int ranks, const std::vector<std::string>& devices);

/// What ranks, such as "rank 0 on a", have beyond the environment that `beyond` names: all of the
/// first one's, and what differs from it of the others'.
std::string rank_environments(const std::vector<std::pair<std::string, EnvironmentChange>>& ranks,
                              const std::string& beyond);

}  // namespace hgt
