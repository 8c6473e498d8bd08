#pragma once

#include <map>
#include <optional>
#include <string>

namespace hgt {

/// One of the tasks of a job that a scheduler has started on its nodes.
struct SchedulerTask {
  std::string starter = {};  ///< "srun", "mpirun"
  int task = 0;
  int num_tasks = 1;
  bool shares_node = false;     ///< with other tasks of the job
  std::string first_node = {};  ///< where task 0 runs, "" = not known
  int port = 0;  ///< where task 0 is to listen: one that other jobs hardly have; 0 = not said
};

/// What the variables that srun, Open MPI's mpirun and MPICH's (hydra) set say of this process;
/// none if they have not started it, or nothing but it. Error(kConfig) names a variable that makes
/// no sense.
std::optional<SchedulerTask> scheduler_task(const std::map<std::string, std::string>& environment);

}  // namespace hgt
