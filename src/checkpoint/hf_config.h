#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

/// The model as transformers' config.json, in the spelling that its versions 4 and 5 both read.
nlohmann::ordered_json hf_config_json(const ModelConfig& model);

}  // namespace hgt
