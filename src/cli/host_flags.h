#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/host_choice.h"

#include "options.h"

namespace hgt {

/// The flags that choose hosts; `does` says what the command does on them.
void add_host_choice(Options& options, HostFlags& flags, const char* does);
/// The flags of `train` and `launch` about hosts, these among them, with the names that DeepSpeed
/// and torchrun use. Each command adds the flags that count workers itself.
void add_host_options(Options& options, HostFlags& flags);

/// Of the keys of --rdzv_conf, takes join_timeout, or timeout, as --join_timeout if this command is
/// a node that joins others and has no such flag; a notice names keys that have no effect.
/// Error(kConfig) if a key is unknown, or if torchrun's meaning of it is that of another flag.
void take_rdzv_conf(HostFlags& flags);

/// `--launcher slurm` replaces this process by srun, which starts the same command without
/// --launcher once on each node of the allocation. `--launcher openmpi` replaces it by Open MPI's
/// mpirun, which starts the command once on each of the hosts, with --no_ssh and the variables that
/// ssh would bring there, those of `exports` too. Capital letters of a launcher's name do not
/// count. If there is no job secret, a new one is made. A dry run prints the command and returns
/// the exit code instead. nullopt if ssh reaches the hosts; the variable kTypedCommand is then
/// removed, because no program may get it. Error(kConfig) if there is no allocation or no host, if
/// flags contradict the launcher, if it is another one, or if srun or mpirun is missing.
std::optional<int> start_nodes(HostFlags flags, std::vector<std::string> exports, bool dry_run);

}  // namespace hgt
