#include "host_flags.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error_list.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/base/text.h"
#include "hgtrain/launch/job.h"
#include "hgtrain/wire/job_key.h"

#include "environment_file.h"
#include "launched_run.h"
#include "shell_words.h"
#include "worker_program.h"

namespace hgt {
namespace {

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

std::int64_t seconds_in(const std::string& word, const std::string& text) {
  std::int64_t out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    throw Error(ErrorKind::kConfig,
                fmt::format("--rdzv_conf: {} is not a number of seconds", word));
  return out;
}

using GivenFlags = std::vector<std::pair<const char*, bool>>;

void refuse_given(const HostFlags& flags, const std::string& why, const std::string& hint,
                  GivenFlags refused) {
  refused.emplace_back("--node_rank", flags.node_rank.has_value());
  refused.emplace_back("--no_ssh", flags.no_ssh);
  for (const auto& [flag, is_given] : refused)
    if (is_given)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("--launcher {} cannot be combined with {}: {}", flags.launcher, flag, why),
          fmt::format("leave out {}{}", flag, hint));
}

[[noreturn]] void refuse_second_start(const HostFlags& flags, const char* starter,
                                      const std::string& tasks) {
  throw Error(
      ErrorKind::kConfig,
      fmt::format("--launcher {} cannot be used, because {} has already started {} of this command",
                  flags.launcher, starter, tasks),
      fmt::format("leave out --launcher, or start the command without {}", starter));
}

int nodes_to_start(const HostFlags& flags) {
  if (variable("SLURM_JOB_ID").empty())
    throw Error(ErrorKind::kConfig,
                "--launcher slurm starts the nodes of an allocation, but this shell has none",
                "use salloc --nodes 2 hgtrain ..., or put the command in a script for sbatch");
  if (!variable("SLURM_STEP_ID").empty() && variable("SLURM_STEP_NUM_TASKS") != "1")
    refuse_second_start(flags, "srun", variable("SLURM_STEP_NUM_TASKS"));
  refuse_given(flags, "the nodes are those of the allocation",
               "; salloc and sbatch have --nodelist and --exclude",
               {{"--hosts", !flags.hosts.empty()},
                {"--hostfile", !flags.hostfile.empty()},
                {"--include", !flags.include.empty()},
                {"--exclude", !flags.exclude.empty()}});
  const int allocated = number_of(variable("SLURM_JOB_NUM_NODES"), "SLURM_JOB_NUM_NODES=");
  if (flags.num_nodes.empty()) return allocated;
  const int asked = number_of(flags.num_nodes, "--num_nodes ");
  if (asked > allocated)
    throw Error(ErrorKind::kConfig,
                fmt::format("--num_nodes {} is more than the nodes of the allocation, {}", asked,
                            allocated));
  return asked;
}

/// The hosts that mpirun is to start this command on.
std::vector<JobHost> hosts_to_start(const HostFlags& flags) {
  if (const std::string tasks = variable("OMPI_COMM_WORLD_SIZE"); !tasks.empty())
    refuse_second_start(flags, "mpirun", tasks);
  refuse_given(flags, "mpirun gives each host its number", "", {});
  std::vector<JobHost> hosts = hosts_of(flags);
  ErrorList wrong;
  if (hosts.empty())
    wrong.add({ErrorKind::kConfig, "--launcher openmpi needs hosts",
               "add --hosts a:4,b:4, or --hostfile FILE"});
  if (min_hosts_of(flags) > 0 || std::ranges::any_of(hosts, &JobHost::is_spare))
    wrong.add(
        {ErrorKind::kConfig,
         "--launcher openmpi cannot be combined with spare hosts or --num_nodes MIN:MAX: if a "
         "host is lost, mpirun ends the job",
         "leave out --launcher: over ssh, a job continues without a lost host"});
  for (const JobHost& host : hosts)
    if (!host.user.empty() || host.ssh_port != 0 || host.name.find('@') != std::string::npos)
      wrong.add(
          {ErrorKind::kConfig,
           fmt::format("--launcher openmpi cannot tell mpirun the user or ssh port of host {}",
                       host.name),
           "mpirun calls ssh itself: give the host its User and Port in ~/.ssh/config"});
  wrong.throw_if_any();
  return hosts;
}

/// This command as it is on each node, which has the variables of --export already.
std::vector<std::string> own_words() {
  std::vector<std::string> out =
      without_switches(without_flag(without_flag(own_command_line(), "--launcher"), "--export"),
                       {"--dry_run", "--dry-run"});
  out[0] = own_program();
  return out;
}

/// Nodes of a job end within seconds of each other. But srun waits for ever for a task on a node
/// that could not report the task's end.
std::vector<std::string> srun_command(int nodes) {
  const std::string wait = variable("SLURM_WAIT");
  std::vector<std::string> out{"srun",
                               fmt::format("--nodes={}", nodes),
                               fmt::format("--ntasks={}", nodes),
                               "--ntasks-per-node=1",
                               "--cpu-bind=none",
                               "--wait=" + (wait.empty() ? "60" : wait),
                               "--export=ALL"};
  const std::vector<std::string> own = own_words();
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

/// Tasks in the order of the hosts, each in this folder and with the variables that ssh would bring
/// there.
std::vector<std::string> mpirun_command(const std::vector<JobHost>& hosts,
                                        const std::vector<std::string>& exports) {
  std::vector<std::string> names;
  for (const JobHost& host : hosts) names.push_back(host.name);
  // mpirun's ssh would wait for minutes for a host that is down, even when mpirun has ended. ssh
  // takes the first of two values, so the user's counts.
  const std::string ssh_options = variable("OMPI_MCA_plm_rsh_args") + " -o ConnectTimeout=10";
  std::vector<std::string> out{"mpirun",
                               "--mca",
                               "plm_rsh_args",
                               trimmed(ssh_options),
                               "--allow-run-as-root",
                               "--bind-to",
                               "none",
                               "--map-by",
                               "seq",
                               "--wdir",
                               std::filesystem::current_path(),
                               "--host",
                               fmt::format("{}", fmt::join(names, ","))};
  for (const auto& [name, value] : travelling_environment(exports))
    out.insert(out.end(), {"-x", name});
  std::vector<std::string> own = own_words();
  own.insert(std::ranges::find(own, "--"), "--no_ssh");
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

/// Replaces this process by the program of a package. mpirun is called by its name, because it
/// takes its path for --prefix, and puts that in front of PATH on each host.
[[noreturn]] void become(std::vector<std::string> command, const char* package) {
  try {
    find_program(command[0], variable("PATH"));
  } catch (const Error& e) {
    throw Error(
        ErrorKind::kConfig, e.message(),
        fmt::format("apt-get install {}; or leave out --launcher, so that hosts are reached "
                    "by ssh",
                    package));
  }
  become_program(std::move(command));
}

}  // namespace

void add_host_choice(Options& options, HostFlags& flags, const char* does) {
  options.add("--hosts", flags.hosts,
              fmt::format("{}, over ssh: a:4,n[01-16]:8 with the workers of each", does));
  options.add("-H,--hostfile", flags.hostfile,
              "the same, from a file with lines of the form \"a slots=4\"");
  options.add("-i,--include", flags.include,
              "only these of the hosts, or slots of them: a@b:0,2-3");
  options.add("-e,--exclude", flags.exclude, "leave out these hosts, or slots of them");
}

void add_host_options(Options& options, HostFlags& flags) {
  add_host_choice(options, flags, "run on these hosts");
  options
      .add("--num_nodes,--nnodes", flags.num_nodes,
           "only the first N of the hosts; MIN:MAX: at most MAX, and MIN are enough (with "
           "--node_rank, N and MAX are all nodes)")
      .type_name("N")
      .or_variable("PET_NNODES");
  options.add("--elastic_timeout", flags.elastic_timeout,
              "seconds for which a restart waits for hosts if too few are left (default: 600)");
  options
      .add("--master_addr", flags.master_addr,
           "address of the first host for the others (default: the one that ssh uses)")
      .or_variable("PET_MASTER_ADDR");
  options
      .add("--master_port", flags.master_port,
           "MASTER_PORT (default: a free port); with --node_rank, the port on which node 0 "
           "listens (default: 29500)")
      .or_variable("PET_MASTER_PORT");
  options.add("--ssh_port", flags.ssh_port, "port of the hosts' ssh servers (default: ssh's)");
  options.add("--launcher", flags.launcher,
              "ssh (default); slurm: srun starts this command on each node of the allocation; "
              "openmpi: mpirun does so on the hosts");
  options
      .add("--node_rank", flags.node_rank,
           "this is node R, counted from 0, of the nodes of --nnodes")
      .or_variable("PET_NODE_RANK");
  options
      .add("--rdzv_endpoint", flags.rdzv_endpoint,
           "HOST:PORT of node 0, in place of --node_rank and --master_addr: the node that is "
           "there is node 0, and the others are numbered as they join")
      .or_variable("PET_RDZV_ENDPOINT");
  options
      .add("--rdzv_backend", flags.rdzv_backend,
           "torchrun's: c10d or static, which mean the same here")
      .one_of({"c10d", "static"})
      .or_variable("PET_RDZV_BACKEND");
  options
      .add("--rdzv_conf", flags.rdzv_conf,
           "torchrun's: KEY=VALUE,...; join_timeout and timeout are as --join_timeout")
      .or_variable("PET_RDZV_CONF");
  options.add_flag("--no_ssh", flags.no_ssh,
                   "with --hosts or --hostfile: each host starts this command, and this is host "
                   "number --node_rank");
  options.add("--job_secret_file", flags.job_secret_file,
              "file with the job's secret, which all nodes must know (default: the variable "
              "HGTRAIN_JOB_SECRET)");
  options.add("--job_secret_env", flags.job_secret_env, "another variable that holds the secret");
  options.add("--join_timeout", flags.join_timeout_seconds,
              "seconds in which nodes must join: all, or MIN of MIN:MAX (default: 600)");
}

void take_rdzv_conf(HostFlags& flags) {
  constexpr std::string_view kIdle[] = {
      "last_call_timeout",   "close_timeout",          "heartbeat_timeout", "read_timeout",
      "keep_alive_interval", "keep_alive_max_attempt", "store_type",        "use_libuv"};
  std::optional<std::int64_t> join_timeout, timeout;
  std::vector<std::string> idle;
  std::istringstream words(flags.rdzv_conf);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string key = trimmed(word.substr(0, equals));
    const std::string value = equals < word.size() ? trimmed(word.substr(equals + 1)) : "";
    if (key.empty() || value.empty())
      throw Error(ErrorKind::kConfig, fmt::format("--rdzv_conf: '{}' is not KEY=VALUE", word),
                  "keys have a value, and commas between them: --rdzv_conf join_timeout=900");
    if (key == "join_timeout")
      join_timeout = seconds_in(word, value);
    else if (key == "timeout")
      timeout = seconds_in(word, value);
    else if (std::ranges::find(kIdle, key) != std::end(kIdle))
      idle.push_back(key);
    else if (key == "is_host")
      throw Error(ErrorKind::kConfig, "--rdzv_conf: is_host cannot be given",
                  "leave it out: the node that is at the address of --rdzv_endpoint is node 0; or "
                  "use --node_rank and --master_addr");
    else
      throw Error(ErrorKind::kConfig, fmt::format("--rdzv_conf: there is no key '{}'", key),
                  "use join_timeout=SECONDS");
  }
  if (!idle.empty())
    tell("hgtrain: {} of --rdzv_conf has no effect here: nodes join node 0 itself\n",
         fmt::join(idle, ", "));
  if (!join_timeout) join_timeout = timeout;
  if (flags.node_rank && !flags.join_timeout_seconds) flags.join_timeout_seconds = join_timeout;
}

std::optional<int> start_nodes(HostFlags flags, std::vector<std::string> exports, bool dry_run) {
  const std::vector<std::string>& typed = typed_command_line();
  const std::string& launcher = flags.launcher = lower(flags.launcher);
  if (launcher.empty() || launcher == "ssh" || launcher == "pdsh") return std::nullopt;
  const bool is_slurm = launcher == "slurm";
  if (!is_slurm && launcher != "openmpi")
    throw Error(
        ErrorKind::kConfig,
        fmt::format("--launcher {} is not built: hgtrain starts nodes by ssh, with --launcher "
                    "slurm by srun, or with --launcher openmpi by Open MPI's mpirun",
                    launcher),
        "under another MPI, use mpirun -np N -ppn 1 hgtrain ... --master_addr HOST (the first of "
        "them), with HGTRAIN_JOB_SECRET in its environment");
  const std::vector<JobHost> hosts = is_slurm ? std::vector<JobHost>() : hosts_to_start(flags);
  const int nodes = is_slurm ? nodes_to_start(flags) : static_cast<int>(hosts.size());
  if (!flags.job_secret_env.empty()) exports.push_back(flags.job_secret_env);
  const bool has_secret = !flags.job_secret_file.empty() || !flags.job_secret_env.empty() ||
                          std::getenv(kJobSecretVariable);
  if (nodes > 1 && !has_secret) setenv(kJobSecretVariable, JobKey::random().hex().c_str(), 1);
  if (std::getenv(kJobSecretVariable)) exports.emplace_back(kJobSecretVariable);
  for (const auto& [name, value] : variables_of_files(flags)) {
    setenv(name.c_str(), value.c_str(), 1);
    exports.push_back(name);
  }
  setenv(kTypedCommand, typed_command_value(typed).c_str(), 1);
  const std::vector<std::string> command =
      is_slurm ? srun_command(nodes) : mpirun_command(hosts, exports);
  if (dry_run) {
    say("command: {}\n", shell_line(command));
    return 0;
  }
  become(command, is_slurm ? "slurm-client" : "openmpi-bin");
}

}  // namespace hgt
