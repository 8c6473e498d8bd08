#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/host_choice.h"

namespace hgt {

/// The flags of `train` as the user typed them.
struct TrainFlags {
  std::string config;
  std::optional<std::string> config_text;  ///< of `config`, which a pipe gives only once
  std::optional<std::int64_t> num_gpus;
  std::optional<std::int64_t> num_workers;
  std::string nproc_per_node;                ///< "" = not given; process_count()
  std::optional<std::int64_t> workers_here;  ///< on GPUs if this machine has some, else on its CPU
  HostFlags on_hosts;                        ///< empty = this machine
  /// For a later attempt that runs on other hosts than the first: its hosts, and the batch size
  /// that it keeps.
  std::vector<JobHost> world;
  std::int64_t batch_size = 0;
  std::string device;  ///< "" = the config's
  std::optional<std::int64_t> steps;
  std::string run_dir;
  std::string resume = "none";
  std::int64_t max_restarts = 0;
  std::string shown_ranks = "none";  ///< RankSet::parse()
  bool detach = false;
  bool dry_run = false;
  bool is_data_here = true;  ///< false: a dry run does not open the data
  std::string gpu;           ///< kind of GPU whose memory a dry run checks, "" = none
  std::string trace;         ///< file for a trace, "" = none
  bool profile = false;
  std::optional<std::int64_t> trace_steps;  ///< steps in the trace and the profile
};

/// Error(kConfig) if flags contradict each other.
void check_flags(const TrainFlags& flags);

/// Turns nproc_per_node into the number of GPUs or workers. Error(kConfig) if that is given, too.
void take_process_count(TrainFlags& flags);

/// If the flags name only localhost, turns them into those of a job on this machine. If they choose
/// slots, these are GPUs, and CUDA_VISIBLE_DEVICES is set to them.
void take_this_machine(TrainFlags& flags);

/// The hosts of `world` or, if that is empty, of `on_hosts`, each with the number of its workers.
std::vector<JobHost> hosts_of(const TrainFlags& flags);

}  // namespace hgt
