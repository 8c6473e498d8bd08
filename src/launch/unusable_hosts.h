#pragma once

#include <string>
#include <vector>

#include "hgtrain/base/error.h"

#include "roster_host.h"

namespace hgt {

/// "host b", or "node 1" if it is a node that has not said yet what its host is called.
std::string title_of(const RosterHost& host);

/// Why a job of these ranges cannot run on `hosts`: names all that cannot be used, with what to do
/// about each. If all can be used, the first does not see the run folder, or the ranks cannot be
/// split. `they_dial`: the hosts dial, instead of being called by ssh.
Error why_unusable(const std::vector<RosterHost>& hosts, const std::vector<RankRange>& ranges,
                   bool they_dial);

}  // namespace hgt
