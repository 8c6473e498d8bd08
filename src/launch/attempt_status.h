#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "attempt_record.h"

namespace hgt {

/// What `hgtrain status --json` says of the hosts and ranks of an attempt: see docs/launch.md.
nlohmann::json status_of(const AttemptRecord& attempt, std::int64_t now_ns);

}  // namespace hgt
