#pragma once

#include <string>

namespace hgt {

/// The model folder meant by `path`: the newest checkpoint of a run folder, else the folder itself.
/// Error(kConfig) where there is no such folder, or neither a checkpoint nor a config.json in it.
std::string find_model_folder(const std::string& path);

}  // namespace hgt
