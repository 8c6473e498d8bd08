#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/launch/job.h"

#include "agent_messages.h"
#include "failure.h"
#include "hang.h"
#include "roster.h"

namespace hgt {

/// What the coordinator knows of one rank.
struct RankView {
  std::size_t host = 0;  ///< its index
  std::int64_t pid = 0;
  Pulse pulse;
  bool is_heard = true;  ///< its control channel is not broken
  std::optional<Ended> end;
  bool is_gone = false;  ///< nothing is left of it, or its host is lost
  std::vector<std::string> last_lines;
  std::string error_message;  ///< of its error file
};

/// What is known of one attempt of a job.
struct AttemptRecord {
  const JobSpec& spec;
  std::uint32_t number = 0;
  std::vector<HostRanks> hosts;
  std::vector<RankView> ranks;
  std::map<int, Failure> failures = {};  ///< by Failure::key()
  int stop_signal = 0;                   ///< the user's, 0 = none
  int master_port = 0;
  std::string port_user = {};  ///< who has taken MASTER_PORT

  AgentLink& link_of(const RankView& rank) const { return *hosts[rank.host].link; }
};

/// Whether the rank is a worker of hgtrain, or has greeted like one.
bool obeys_commands(const AttemptRecord& attempt, const RankView& rank);

/// How the attempt went, once nothing is left of it.
Verdict verdict_on(const AttemptRecord& attempt);

/// What `hgtrain status --json` says of the hosts and ranks of an attempt: see docs/launch.md.
nlohmann::json status_of(const AttemptRecord& attempt, std::int64_t now_ns);

}  // namespace hgt
