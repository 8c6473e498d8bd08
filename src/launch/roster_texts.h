#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "hgtrain/base/error.h"

#include "roster_host.h"

namespace hgt {

// What the user is told about the hosts of a job.

/// How nodes dial that cannot prove that they belong to the job.
inline constexpr const char* kOtherSecret = "with another job secret";

/// "host b", or "node 1" if it is a node that has not said yet what its host is called.
std::string title_of(const RosterHost& host);

/// That the host, without which the job can do, cannot be used.
std::string text_of_away(const RosterHost& host);

/// That no host which the spare could replace has as few slots.
std::string text_of_small_spare(const RosterHost& spare);

/// For which hosts a restart waits, and until when. `call_period`: after which each is called
/// again; 0 if they dial.
std::string text_of_waiting(const std::vector<RosterHost>& hosts, std::chrono::nanoseconds left,
                            std::chrono::nanoseconds call_period);

/// On which hosts the ranks of `world` run, of how many.
std::string text_of_world(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& world,
                          std::size_t num_hosts);

/// Why a job of these ranges cannot run on `hosts`: names all that cannot be used, with what to do
/// about each. If all can be used, the first does not see the run folder, or the ranks cannot be
/// split. `they_dial`: the hosts dial, instead of being called by ssh.
Error why_unusable(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& ranges,
                   bool they_dial);

}  // namespace hgt
