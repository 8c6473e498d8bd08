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
  bool is_heard = true;  ///< its control channel works
  std::optional<Ended> end;
  std::int64_t end_uncertainty_ns = 0;  ///< of its at_ns
  bool is_gone = false;                 ///< none of its processes is left, or its host is lost
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
  int stop_signal = 0;            ///< the signal with which the user stopped the job, 0 = none
  std::string stopped_by = {};    ///< that signal's name, or the command with which the user did it
  bool ended_connecting = false;  ///< that stop came before all ranks were connected: it ended them
  int master_port = 0;
  std::string port_user = {};  ///< the process that has taken MASTER_PORT

  AgentLink& link_of(const RankView& rank) const { return *hosts[rank.host].link; }
};

/// Whether the rank obeys commands: it is a worker of hgtrain, or has sent a hello like one.
bool obeys_commands(const AttemptRecord& attempt, const RankView& rank);

/// How the attempt went, once none of its processes is left.
Verdict verdict_on(const AttemptRecord& attempt);

/// The hosts and ranks of an attempt for `hgtrain status --json`: see docs/launch.md.
nlohmann::json status_of(const AttemptRecord& attempt, std::int64_t now_ns);

}  // namespace hgt
