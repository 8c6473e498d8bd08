#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/host_facts.h"
#include "hgtrain/launch/hosts.h"

namespace hgt {

/// A host's clock against this machine's.
struct ClockOffset {
  std::int64_t ahead_ns = 0;
  std::int64_t uncertainty_ns = 0;
};

/// A host that is about to run ranks.
struct InspectedHost {
  JobHost spec;  ///< with the number of its ranks
  /// Its ranks' first; lower ones belong to other hosts of the same machine.
  int first_local_rank = 0;
  int machine = 0;  ///< the same for hosts that are known to share one
  HostFacts facts;
  std::optional<ClockOffset> clock;  ///< none: not measured
};

struct Preflight {
  std::vector<Error> errors;         ///< why the job cannot run on these hosts
  std::vector<std::string> notices;  ///< what may slow it down or stop it later
};

/// Checks whether the hosts can run their ranks, and what differs between them. Plain data in and
/// out. Facts that are not known are not checked. `own_cpu_workers`: the workers are hgtrain's, on
/// CPUs, and share memory without /dev/shm.
Preflight check_hosts(const std::vector<InspectedHost>& hosts, bool own_cpu_workers);

/// The UUIDs of the GPUs that the host's ranks use, one per rank; "" = not known. Empty if they use
/// none.
std::vector<std::string> used_gpus(const InspectedHost& host);

}  // namespace hgt
