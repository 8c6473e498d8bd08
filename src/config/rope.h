#pragma once

#include <nlohmann/json.hpp>

namespace hgt {

struct ModelConfig;

/// Reads HF's `rope_scaling` or `rope_parameters` (null: none) into the model's rope_theta and
/// rope_scaling. The rope_theta of an old file must be set before.
/// Error(kConfig) if a value is invalid or not supported.
void read_rope(const nlohmann::ordered_json& parameters, ModelConfig& model);

}  // namespace hgt
