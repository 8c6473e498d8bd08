#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

/// The beginning of every result: which bench, of what, on what.
nlohmann::ordered_json about(const char* bench, const Config& config);

}  // namespace hgt
