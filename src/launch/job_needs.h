#pragma once

#include <chrono>
#include <string>

#include "hgtrain/launch/job.h"

#include "agent_messages.h"

namespace hgt {

// What a job needs of its hosts.

/// The job can continue without a host that is lost.
bool is_elastic(const JobSpec& spec);
/// Some host must have GPUs.
bool uses_gpus(const JobSpec& spec);
/// How long a restart waits for hosts that cannot be used.
std::chrono::milliseconds patience_of(const JobSpec& spec);
/// The folder in which ranks of other hosts work; "" = where each node was started.
std::string folder_there(const JobSpec& spec);
/// What each host is asked before it runs ranks.
Inspect inspection_of(const JobSpec& spec);

}  // namespace hgt
