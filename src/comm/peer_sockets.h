#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/comm/connect.h"

namespace hgt {

/// For how long nothing may come back from a peer's host. A process that is stopped does no harm,
/// because its host still acknowledges what comes. Longer than the launcher's lease of a host.
constexpr std::chrono::seconds kMaxHostSilence{20};

/// What to do if it is longer.
constexpr const char* kCutNetworkHint =
    "look at the network between the ranks' hosts: hgtrain doctor --links, with the hosts of the "
    "job's command, measures it";

/// Connects the ranks of a group over TCP, each with each, and returns the non-blocking streams by
/// rank (none for this rank). Each rank listens at its numeric `address` on a port of its own until
/// all have connected. It publishes the port and a random token for this group in the channel's
/// store, so that both ends of a stream can prove that they belong to the job. A connection that
/// does not do so within 5 s is dropped. A stream fails with ETIMEDOUT once the peer's host has
/// been silent for kMaxHostSilence, unless bytes are on their way to it. Error(kPeer) if a rank
/// does not come within the timeout, or its host does not answer for kMaxHostSilence.
std::vector<OwnedFd> connect_peers(ControlChannel& channel, const GroupOptions& options,
                                   const std::string& address);

}  // namespace hgt
