#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
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

/// How fast TCP is from one host to another, over the address that workers would use.
struct SurveyedLink {
  std::size_t from = 0, to = 0;  ///< numbers of hosts
  std::int64_t round_trip_ns = 0;
  std::int64_t bytes_per_second = 0;
  std::string why_unusable{};  ///< "" = it was measured
};

struct SurveyResult {
  std::vector<SurveyedHost> hosts;
  std::vector<SurveyedLink> links;  ///< one for each pair of hosts that can be used, if asked for
  /// Why the other hosts cannot reach that of rank 0, and what helps; "" = nothing prevents it.
  std::string no_address{};
};

/// Connects to the hosts by ssh as a job does, asks each for its facts and its `hgtrain doctor`,
/// and disconnects; nothing is started there. Blocks until each host has answered or cannot be
/// used. A host has 30 s to start the agent, and is lost if it is silent for a minute after that.
/// With links, each pair of hosts measures the connection for about half a second, and no host is
/// in two pairs at a time. `notice` gets a line for each host that gets a copy of this program.
/// Error(kDevice) if there is no ssh.
SurveyResult survey_hosts(const std::vector<JobHost>& hosts, bool with_links,
                          const std::function<void(const std::string& text)>& notice);

/// All pairs of the numbers below `num`, in rounds in which no number is in two pairs.
std::vector<std::vector<std::pair<std::size_t, std::size_t>>> pairs_in_rounds(std::size_t num);

}  // namespace hgt
