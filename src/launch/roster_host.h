#pragma once

#include <memory>
#include <optional>
#include <string>

#include "hgtrain/launch/host_facts.h"
#include "hgtrain/launch/hosts.h"

#include "agent_link.h"
#include "ssh_host.h"
#include "tls_carrier.h"
#include "world.h"

namespace hgt {

/// A host of a job, how its agent is reached, and what is known of it.
struct RosterHost {
  JobHost spec;
  bool is_here = false;                 ///< among hosts that are called
  std::unique_ptr<SshHost> ssh;         ///< if it is called
  std::shared_ptr<TlsCarrier> carrier;  ///< if it has dialled
  std::unique_ptr<AgentLink> link;
  Candidate::State state = Candidate::State::kCalled;
  std::string address;      ///< by which ssh reached it
  std::string our_address;  ///< which it dialled
  std::string machine;      ///< Join::machine
  int gpus = 0;             ///< that programs see there
  bool has_said_hello = false;
  enum class Files { kUnknown, kAsked, kThere } files = Files::kUnknown;
  std::optional<HostFacts> facts;
  std::string why_away;
  bool is_told = false;    ///< the user knows that
  bool knows_end = false;  ///< it has been told how the job has ended
};

}  // namespace hgt
