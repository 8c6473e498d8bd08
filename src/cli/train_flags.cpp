#include "train_flags.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/job.h"

#include "check_flags.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxSteps = 1'000'000'000'000;

}  // namespace

void check_flags(const TrainFlags& flags) {
  const auto refuse = [](const std::string& message, const std::string& hint) {
    throw Error(ErrorKind::kConfig, message, hint);
  };
  if (flags.config.empty())
    refuse("no config is named",
           "name one: --config FILE; `hgtrain config init quickstart` writes one");
  require_one_count(flags.num_gpus, flags.num_workers);
  if (flags.num_gpus && flags.device == "cpu")
    refuse("--num_gpus cannot be combined with --device cpu",
           "for N workers on the CPU, use --num_workers N");
  if (flags.num_workers && flags.device == "cuda")
    refuse("--num_workers starts CPU workers, but the device is cuda",
           "for N GPUs, use --num_gpus N");
  check_range("--num_gpus", flags.num_gpus.value_or(1), 1, kMaxWorkersOfHost,
              "leave it out to use all; for N workers on the CPU, use --num_workers N");
  check_range("--num_workers", flags.num_workers.value_or(1), 1, kMaxWorkersOfHost,
              "leave it out to start one; one for each core is plenty");
  check_range("--nproc_per_node", flags.workers_here.value_or(1), 1, kMaxWorkersOfHost);
  check_range("--max_restarts", flags.max_restarts, 0, kMaxRestarts);
  RankSet::parse(flags.shown_ranks);  // refuses what is none
  check_range("--master_port", flags.on_hosts.master_port, 0, 65535);
  const std::vector<JobHost> hosts = hosts_of(flags);
  if (!hosts.empty() && !flags.gpu.empty())
    refuse("--gpu cannot be combined with hosts: it is about one machine",
           "leave out --hosts and --hostfile to see whether it fits such a GPU");
  for (const JobHost& host : hosts) {
    if (host.workers > 0) continue;
    if (flags.on_hosts.node_rank)
      refuse("it is not known how many workers a node runs",
             "add --num_gpus N or, on CPUs, --num_workers N");
    refuse(fmt::format("host {} has no number of workers", host.name),
           fmt::format("use --hosts {0}:4, or --num_workers N for all hosts without a number",
                       host.name));
  }
  if (!flags.gpu.empty() && !flags.dry_run)
    refuse("--gpu needs --dry_run", "to train on N GPUs, use --num_gpus N");
  if (!flags.gpu.empty() && (flags.device == "cpu" || flags.num_workers))
    refuse("--gpu cannot be combined with workers on the CPU",
           "leave out --gpu, or --num_workers and --device cpu");
  if (flags.trace_steps && flags.trace.empty() && !flags.profile)
    refuse("--trace_steps needs --trace or --profile", "add --trace FILE or --profile");
  check_range("--trace_steps", flags.trace_steps.value_or(1), 1, kMaxSteps,
              "leave it out for ten steps");
  if (flags.steps.value_or(1) > kMaxSteps)  // what int64 cannot hold arrives as its largest value
    refuse(fmt::format("--steps is larger than {}", kMaxSteps),
           "leave it out to use the config's training.train_iters");
  check_range("--steps", flags.steps.value_or(1), 1, kMaxSteps,
              "leave it out to use the config's training.train_iters");
}

std::vector<JobHost> hosts_of(const TrainFlags& flags) {
  if (!flags.world.empty()) return flags.world;
  HostFlags on_hosts = flags.on_hosts;
  on_hosts.num_workers = flags.num_workers ? flags.num_workers
                         : flags.num_gpus  ? flags.num_gpus
                                           : flags.workers_here;
  on_hosts.restarts = flags.max_restarts > 0;
  return hosts_of(on_hosts);
}

void take_process_count(TrainFlags& flags) {
  if (flags.nproc_per_node.empty()) return;
  if (flags.num_gpus || flags.num_workers)
    throw Error(ErrorKind::kConfig,
                "--nproc_per_node cannot be combined with --num_gpus or --num_workers",
                "keep one of them");
  const bool is_here = !reaches_hosts(flags.on_hosts);
  const ProcessCount count = process_count("--nproc_per_node", flags.nproc_per_node, is_here);
  if (flags.nproc_per_node == "cpu")
    flags.num_workers = count.number;
  else if (count.needs_gpu && is_here)
    flags.num_gpus = std::max<std::int64_t>(1, std::ssize(visible_gpus().gpus));
  else if (count.needs_gpu)
    flags.device = "cuda";
  else
    flags.workers_here = count.number;
}

void take_this_machine(TrainFlags& flags) {
  const std::vector<JobHost> hosts = hosts_of(flags);
  if (!is_this_machine(hosts)) return;
  flags.on_hosts = {.master_port = flags.on_hosts.master_port};
  for (const auto& [name, value] : host_environment(hosts[0]))
    ::setenv(name.c_str(), value.c_str(), 1);
  if (hosts[0].workers == 0 || flags.num_workers || flags.num_gpus) return;
  const bool on_gpus = flags.device != "cpu" && !hosts[0].devices.empty();
  (on_gpus ? flags.num_gpus : flags.workers_here) = hosts[0].workers;
}

}  // namespace hgt
