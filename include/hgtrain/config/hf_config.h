#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/dtype.h"

namespace hgt {

struct ModelConfig;

/// transformers' config.json of the model with weights of this type, with the names of keys that
/// transformers 4 and 5 both read.
nlohmann::ordered_json hf_config_json(const ModelConfig& model, DType weights = DType::kF32);

/// The same for a model that came with a config.json, whose text is `source_text`: keys that
/// hgtrain does not use are kept, and a key whose value did not change keeps its spelling.
/// Error(kConfig) if that text is not a model's config.json.
nlohmann::ordered_json hf_config_json(const ModelConfig& model, DType weights,
                                      const std::string& source_text);

/// Reads the model from an HF config.json, or from a folder with one. Error(kConfig) names all that
/// is wrong or not supported; keys that do not change the maths are ignored.
ModelConfig read_hf_config(const std::string& path);
/// The same from a text; messages call it `name`.
ModelConfig parse_hf_config(const std::string& text, const std::string& name);

}  // namespace hgt
