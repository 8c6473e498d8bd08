#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/config/config.h"

namespace hgt {

/// The model, with weights of this type, as transformers' config.json, in the spelling that its
/// versions 4 and 5 both read.
nlohmann::ordered_json hf_config_json(const ModelConfig& model, DType weights = DType::kF32);

/// The model of an HF config.json, or of the folder with one. Error(kConfig) tells all that is
/// wrong or not supported; keys that do not change the maths are ignored.
ModelConfig read_hf_config(const std::string& path);

}  // namespace hgt
