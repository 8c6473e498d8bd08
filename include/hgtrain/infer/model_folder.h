#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hgt {

/// The model folder that the user means by `path`, see checkpoint_folder(). Error(kConfig) if there
/// is no such folder, or if it has neither a checkpoint nor a config.json.
std::string find_model_folder(const std::string& path);

/// The tokens that end a text of the model in `folder`: eos_token_id (a number or a list) of its
/// generation_config.json, else of its config.json; none if neither has the key. Error(kData) if
/// one of these files is damaged.
std::vector<std::int32_t> end_ids(const std::string& folder);

}  // namespace hgt
