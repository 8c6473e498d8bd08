#pragma once

#include <string>
#include <vector>

#include "hgtrain/launch/preflight.h"

#include "roster_host.h"
#include "world.h"

namespace hgt {

/// A host that runs ranks of an attempt, numbered one after another.
struct HostRanks {
  AgentLink* link;
  int first_rank;
  int num_ranks;
  JobHost spec;                ///< with the number of these ranks
  std::string address = {};    ///< at which ssh has reached it, "" = it has dialled
  std::string interface = {};  ///< HostFacts::interface, "" = not known
  int machine = 0;             ///< its number; several tasks of a scheduler may share one
  int first_local_rank = 0;
  int local_size = 0;  ///< ranks of the machine
};

/// The hosts of the ranges of `world`, with the numbers of their ranks. Tasks of a scheduler that
/// share a machine share its local ranks.
std::vector<HostRanks> place_ranks(const std::vector<RosterHost>& hosts,
                                   const std::vector<RankRange>& world);

/// The same hosts for check_hosts(), except those of which nothing is known.
std::vector<InspectedHost> inspected_hosts(const std::vector<RosterHost>& hosts,
                                           const std::vector<RankRange>& world);

/// The address at which the other hosts reach the first one. "" = that of its interface, which its
/// agent knows. `ssh_address`: where ssh has reached it. Error(kConfig) if they cannot reach it.
std::string address_for_others(const JobHost& first, const std::string& ssh_address);

/// The address of rank 0's host in this `world`: a loopback if it is the only one, else
/// address_for_others().
std::string find_master_address(const std::vector<RosterHost>& hosts,
                                const std::vector<RankRange>& world);

/// The numeric address at which nodes have dialled this machine; a loopback only if all nodes are
/// on this machine.
std::string dialled_address(const std::vector<RosterHost>& hosts);

}  // namespace hgt
