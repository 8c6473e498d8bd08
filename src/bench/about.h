#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/device/stream.h"

namespace hgt {

struct Config;

/// The beginning of every result: which bench, which model, which machine; `attention` names the
/// code that computes attention.
nlohmann::ordered_json about(const char* bench, const Config& config, const Stream& stream,
                             const std::string& attention = "");

}  // namespace hgt
