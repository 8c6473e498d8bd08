#pragma once

#include <optional>

#include "hgtrain/launch/host_choice.h"

#include "options.h"

namespace hgt {

/// The flags of `train` and `launch` that say on which hosts, by the names that DeepSpeed and
/// torchrun have for them too. Those that count workers are the commands' own.
void add_host_options(Options& options, HostFlags& flags);

/// `--launcher slurm`: replaces this process by srun, which starts the same command, but for
/// --launcher, once on each node of the allocation; nodes without a job secret get a fresh one. A
/// dry run prints the command and returns the exit code instead. nullopt if hosts are reached by
/// ssh. Error(kConfig) if no allocation is there, if flags name hosts, or for another launcher.
std::optional<int> start_nodes(const HostFlags& flags, bool dry_run);

}  // namespace hgt
