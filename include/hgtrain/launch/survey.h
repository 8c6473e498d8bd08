#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"
#include "hgtrain/launch/preflight.h"

namespace hgt {

/// What a host has answered, or why it cannot be used.
struct SurveyedHost {
  InspectedHost host;
  std::string why_unusable{};  ///< "" = it can
  std::string hint{};
};

/// Calls the hosts by ssh as a job does, asks each what it has, `hgtrain doctor` included, and
/// hangs up: nothing is started there. Blocks until all have answered or cannot be used; a host has
/// 30 s to start the agent and a minute to answer. `sending` is called for a host that gets a copy
/// of this program, with its bytes. Error(kDevice) if there is no ssh.
std::vector<SurveyedHost> survey_hosts(
    const std::vector<JobHost>& hosts,
    const std::function<void(const std::string& host, std::size_t bytes)>& sending);

}  // namespace hgt
