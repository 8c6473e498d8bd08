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
  std::string first_node = {};  ///< the node of task 0, "" = not known
  int port = 0;  ///< port for task 0 that other jobs are unlikely to use; 0 = not known
};

/// The task that this process is, from the variables that srun, Open MPI's mpirun and MPICH's
/// mpirun (hydra) set; nullopt if none of them has started it, or if it is the only task.
/// Error(kConfig) names a variable with an invalid value.
std::optional<SchedulerTask> scheduler_task(const std::map<std::string, std::string>& environment);

}  // namespace hgt
