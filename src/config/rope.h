#pragma once

#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

/// Reads HF's `rope_scaling` or `rope_parameters` (null: none) into the model's rope_theta and
/// rope_scaling. What an old file has beside it (rope_theta) is set before.
/// Error(kConfig) for what is not supported or cannot be.
void read_rope(const nlohmann::ordered_json& parameters, ModelConfig& model);

}  // namespace hgt
