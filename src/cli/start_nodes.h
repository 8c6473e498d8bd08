#pragma once

#include <optional>

#include "hgtrain/launch/host_choice.h"

namespace hgt {

/// `--launcher slurm`: replaces this process by srun, which starts the same command, but for
/// --launcher, once on each node of the allocation; nodes without a job secret get a fresh one. A
/// dry run prints the command and returns the exit code instead. nullopt if hosts are reached by
/// ssh. Error(kConfig) if no allocation is there, if flags name hosts, or for another launcher.
std::optional<int> start_nodes(const HostFlags& flags, bool dry_run);

}  // namespace hgt
