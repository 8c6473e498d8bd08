#include "hgtrain/infer/model_folder.h"

#include <filesystem>

#include <fmt/format.h>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

std::string find_model_folder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    throw Error(ErrorKind::kConfig, fmt::format("{} is not a folder", path),
                "name a checkpoint, a run folder, or an HF model folder");
  const auto checkpoints = list_checkpoints(path);
  if (!checkpoints.empty()) return checkpoints.front();
  if (std::filesystem::exists(path + "/checkpoints", ignored))
    throw Error(ErrorKind::kConfig, fmt::format("the run in {} has no checkpoint yet", path));
  if (!std::filesystem::exists(path + "/config.json", ignored))
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is not a model folder: it has no config.json", path),
                "name a checkpoint, a run folder, or an HF model folder");
  return path;
}

}  // namespace hgt
