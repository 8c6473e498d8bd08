#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <asio/steady_timer.hpp>

#include "hgtrain/launch/host_facts.h"
#include "hgtrain/launch/hosts.h"

#include "agent_link.h"
#include "ssh_host.h"
#include "tls_carrier.h"
#include "world.h"

namespace hgt {

/// A host of a job, the connection to its agent, and its state.
struct RosterHost {
  JobHost spec;
  bool is_here = false;                                ///< this machine, although the job has hosts
  std::unique_ptr<SshHost> ssh;                        ///< if ssh reaches it
  std::chrono::seconds connect_limit = kConnectLimit;  ///< of the call
  int repeated_calls = 0;                              ///< because its connection was dropped
  bool is_dropped_reported = false;                    ///< that was reported to the user
  std::unique_ptr<asio::steady_timer> pause;           ///< before the next of them
  std::chrono::steady_clock::time_point not_before;    ///< the next call, if one was not answered
  std::shared_ptr<TlsCarrier> carrier;                 ///< if it has dialled
  std::unique_ptr<AgentLink> link;
  Candidate::State state = Candidate::State::kCalled;
  std::string address;      ///< the address by which ssh reached it
  std::string our_address;  ///< the address that it dialled
  std::string machine;      ///< Join::machine
  std::string node_id;      ///< Join::id
  int gpus = 0;             ///< GPUs that programs see there
  bool has_said_hello = false;
  std::unique_ptr<asio::steady_timer> answer_limit;  ///< until it has sent its facts
  enum class Files { kUnknown, kAsked, kThere } files = Files::kUnknown;
  std::optional<HostFacts> facts;
  std::string why_away;
  std::string lacks;           ///< why it could not run ranks, although it answered, the last time
  std::int64_t fenced_ns = 0;  ///< if it is lost: AgentLink::fenced_ns()
  bool is_left_out = false;    ///< Roster::leave_out()
  bool was_set_aside = false;  ///< Roster::set_aside()
  bool is_reported = false;    ///< its loss was reported to the user
  bool knows_end = false;      ///< it has acknowledged how the job has ended, or is lost for good
};

}  // namespace hgt
