#pragma once

#include <string>

#include "hgtrain/launch/host_facts.h"
#include "hgtrain/machine/visible_gpus.h"

#include "agent_messages.h"

namespace hgt {

/// The facts about this host that its agent reports. `address` is the one by which the launcher
/// reached it, `devices` are those that programs see here. Takes milliseconds, except for libraries
/// (3 s at most) and doctor. Enters Inspect::work_folder.
HostFacts look_at_host(const Inspect& wanted, const std::string& address,
                       const VisibleDevices& devices);

/// Makes `folder` this process's working folder; "" = stays. Error(kConfig) if this host lacks it.
void enter_folder(const std::string& folder);

}  // namespace hgt
