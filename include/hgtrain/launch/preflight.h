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
  JobHost spec;              ///< with the number of its ranks
  int first_local_rank = 0;  ///< of them; others are other hosts' of the same machine
  int machine = 0;           ///< the same for hosts that are known to share one
  HostFacts facts;
  std::optional<ClockOffset> clock;  ///< none: not measured
};

struct Preflight {
  std::vector<Error> errors;         ///< why the job cannot run on these hosts
  std::vector<std::string> notices;  ///< what may slow it down or stop it later
};

/// Whether the hosts can run their ranks, and what differs between them. Plain data in and out.
/// What is not known of a host is not checked. `own_cpu_workers`: hgtrain's own, on CPUs, which
/// share memory without /dev/shm.
Preflight check_hosts(const std::vector<InspectedHost>& hosts, bool own_cpu_workers);

/// UUIDs of the GPUs that its ranks use, if they use any, one for each; "" = not known.
std::vector<std::string> used_gpus(const InspectedHost& host);

}  // namespace hgt
