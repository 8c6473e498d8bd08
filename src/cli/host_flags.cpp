#include "host_flags.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/wire/job_key.h"

#include "launched_run.h"
#include "shell_words.h"
#include "worker_program.h"

namespace hgt {
namespace {

constexpr const char* kSecret = "HGTRAIN_JOB_SECRET";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// Slurm says it, but a user may have set the variable.
int number_of(const std::string& text, const std::string& what) {
  int out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || out < 1)
    throw Error(ErrorKind::kConfig,
                fmt::format("--launcher slurm: {}{} is not a number of nodes", what, text));
  return out;
}

void require_no_hosts(const HostFlags& flags) {
  for (const auto& [flag, is_given] :
       {std::pair("--hosts", !flags.hosts.empty()),
        std::pair("--hostfile", !flags.hostfile.empty()),
        std::pair("--include", !flags.include.empty()),
        std::pair("--exclude", !flags.exclude.empty()),
        std::pair("--node_rank", flags.node_rank.has_value()), std::pair("--no_ssh", flags.no_ssh)})
    if (is_given)
      throw Error(
          ErrorKind::kConfig,
          fmt::format(
              "--launcher slurm cannot be combined with {}: the nodes are those of the allocation",
              flag),
          fmt::format("leave out {}; salloc and sbatch have --nodelist and --exclude", flag));
}

int nodes_to_start(const HostFlags& flags) {
  if (variable("SLURM_JOB_ID").empty())
    throw Error(ErrorKind::kConfig,
                "--launcher slurm starts the nodes of an allocation, but this shell has none",
                "use salloc --nodes 2 hgtrain ..., or put the command in a script for sbatch");
  if (!variable("SLURM_STEP_ID").empty() && variable("SLURM_STEP_NUM_TASKS") != "1")
    throw Error(
        ErrorKind::kConfig,
        fmt::format(
            "--launcher slurm cannot be used, because srun has already started {} of this command",
            variable("SLURM_STEP_NUM_TASKS")),
        "leave out --launcher, or start the command without srun");
  require_no_hosts(flags);
  const int allocated = number_of(variable("SLURM_JOB_NUM_NODES"), "SLURM_JOB_NUM_NODES=");
  if (flags.num_nodes.empty()) return allocated;
  const int asked = number_of(flags.num_nodes, "--num_nodes ");
  if (asked > allocated)
    throw Error(ErrorKind::kConfig,
                fmt::format("--num_nodes {} is more than the nodes of the allocation, {}", asked,
                            allocated));
  return asked;
}

std::vector<std::string> srun_command(int nodes) {
  std::vector<std::string> out{"srun",
                               fmt::format("--nodes={}", nodes),
                               fmt::format("--ntasks={}", nodes),
                               "--ntasks-per-node=1",
                               "--cpu-bind=none",
                               "--export=ALL",
                               own_program()};
  const std::vector<std::string> own = without_flag(own_command_line(), "--launcher");
  out.insert(out.end(), own.begin() + 1, own.end());
  return out;
}

}  // namespace

void add_host_options(Options& options, HostFlags& flags) {
  options.add("--hosts", flags.hosts,
              "run on these hosts, over ssh: a:4,n[01-16]:8 with the workers of each");
  options.add("-H,--hostfile", flags.hostfile,
              "the same, from a file with lines of the form \"a slots=4\"");
  options.add("-i,--include", flags.include,
              "of the hosts, only these, or slots of them: a@b:0,2-3");
  options.add("-e,--exclude", flags.exclude, "all but these hosts, or slots of them");
  options
      .add("--num_nodes,--nnodes", flags.num_nodes,
           "only the first N of the hosts; MIN:MAX: at most MAX, and MIN are enough")
      .type_name("N");
  options.add("--elastic_timeout", flags.elastic_timeout,
              "seconds to wait for a host if too few are left (default: 600)");
  options.add("--master_addr", flags.master_addr,
              "where the others find the first host (default: where ssh finds it)");
  options.add("--master_port", flags.master_port,
              "MASTER_PORT (default: a free one); with --node_rank, where node 0 listens (29500)");
  options.add("--ssh_port", flags.ssh_port, "port of the hosts' ssh servers (default: ssh's)");
  options.add("--launcher", flags.launcher,
              "ssh (default); slurm: srun starts this command on each node of the allocation");
  options.add("--node_rank", flags.node_rank,
              "this is node R, counted from 0, of the nodes of --nnodes");
  options.add_flag("--no_ssh", flags.no_ssh,
                   "the same if hosts are named: this is the host number --node_rank of them");
  options.add("--job_secret_file", flags.job_secret_file,
              "file of the secret by which nodes know each other (default: $HGTRAIN_JOB_SECRET)");
  options.add("--job_secret_env", flags.job_secret_env, "the variable that has it");
  options.add("--join_timeout", flags.join_timeout_seconds,
              "seconds in which all nodes must join (default: 600)");
}

std::optional<int> start_nodes(const HostFlags& flags, bool dry_run) {
  const std::string& launcher = flags.launcher;
  if (launcher.empty() || launcher == "ssh" || launcher == "pdsh") return std::nullopt;
  if (launcher != "slurm")
    throw Error(
        ErrorKind::kConfig,
        fmt::format("--launcher {} is not built: hgtrain starts nodes by ssh or, with "
                    "--launcher slurm, by srun",
                    launcher),
        "under MPI, use mpirun -np N --map-by ppr:1:node --bind-to none -x HGTRAIN_JOB_SECRET "
        "hgtrain ... --master_addr HOST (the first of them)");
  const int nodes = nodes_to_start(flags);
  const std::vector<std::string> command = srun_command(nodes);
  if (dry_run) {
    say("command: {}\n", shell_line(command));
    return 0;
  }
  const bool has_secret =
      !flags.job_secret_file.empty() || !flags.job_secret_env.empty() || std::getenv(kSecret);
  if (nodes > 1 && !has_secret) setenv(kSecret, JobKey::random().hex().c_str(), 1);
  become_program(command);
}

}  // namespace hgt
