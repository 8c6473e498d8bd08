#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/device/stream.h"

namespace hgt {

struct Config;

/// The beginning of every result: which bench, of which model, on which machine; `attention` says
/// which code computes it.
nlohmann::ordered_json about(const char* bench, const Config& config, const Stream& stream,
                             const std::string& attention = "");

}  // namespace hgt
