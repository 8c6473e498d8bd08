#pragma once

#include <optional>
#include <string>

namespace hgt {

/// How many processes the kernel's out-of-memory killer has killed so far in this process's control
/// group (v2 memory.events or v1 memory.oom_control), else on the whole machine (/proc/vmstat).
/// nullopt if the kernel does not say. `root` replaces / in tests.
std::optional<long> oom_kills(const std::string& root = "");

}  // namespace hgt
