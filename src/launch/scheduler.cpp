#include "scheduler.h"

#include <charconv>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

#include "host_range.h"

namespace hgt {
namespace {

constexpr int kMaxTasks = 1 << 20;
// Below the ports from which the kernel takes those of connections.
constexpr int kFirstPort = 20'000, kPorts = 10'000;

/// The variables of a process, as numbers.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& all) : all_(all) {}

  bool has(const std::string& name) const { return all_.contains(name); }
  std::string text(const std::string& name) const { return has(name) ? all_.at(name) : ""; }
  /// A number from 0 to `limit`.
  int number(const std::string& name, int limit) const {
    const std::string value = text(name);
    int out = -1;
    const auto end = std::from_chars(value.data(), value.data() + value.size(), out);
    if (end.ec != std::errc() || end.ptr != value.data() + value.size() || out < 0 || out > limit)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("the variable {}={} is not a number from 0 to {}", name, value, limit),
          "it is the scheduler's: is this command started by it?");
    return out;
  }

 private:
  const std::map<std::string, std::string>& all_;
};

SchedulerTask task_of_mpi(const Variables& variables, const std::string& rank,
                          const std::string& size, const std::string& local_size) {
  SchedulerTask out{.starter = "mpirun"};
  out.num_tasks = variables.number(size, kMaxTasks);
  out.task = variables.number(rank, out.num_tasks - 1);
  const int on_node = variables.number(local_size, kMaxTasks);
  out.shares_node = on_node > 1;
  if (on_node == out.num_tasks) out.first_node = "127.0.0.1";
  return out;
}

/// A batch script is no step, and has no SLURM_STEP_ID.
SchedulerTask task_of_slurm(const Variables& variables) {
  SchedulerTask out{.starter = "srun"};
  out.num_tasks = variables.number("SLURM_STEP_NUM_TASKS", kMaxTasks);
  out.task = variables.number("SLURM_PROCID", out.num_tasks - 1);
  out.shares_node = variables.number("SLURM_STEP_NUM_NODES", kMaxTasks) < out.num_tasks;
  const std::string nodes = variables.text("SLURM_STEP_NODELIST");
  if (!nodes.empty()) out.first_node = expand_names(split_outside_brackets(nodes, ',').at(0)).at(0);
  const std::string step = variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
  unsigned hash = 0;
  for (const char c : step) hash = hash * 31 + static_cast<unsigned char>(c);
  out.port = kFirstPort + static_cast<int>(hash % kPorts);
  return out;
}

}  // namespace

std::optional<SchedulerTask> scheduler_task(const std::map<std::string, std::string>& environment) {
  const Variables variables(environment);
  std::optional<SchedulerTask> out;
  // mpirun may start its own daemons with srun, whose variables its tasks then have, too.
  if (variables.has("OMPI_COMM_WORLD_RANK"))
    out = task_of_mpi(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                      "OMPI_COMM_WORLD_LOCAL_SIZE");
  else if (variables.has("PMI_RANK") && variables.has("MPI_LOCALNRANKS"))
    out = task_of_mpi(variables, "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS");
  else if (variables.has("SLURM_STEP_ID"))
    out = task_of_slurm(variables);
  return out && out->num_tasks > 1 ? out : std::nullopt;
}

}  // namespace hgt
