#include "hgtrain/infer/model_folder.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/checked.h"
#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {

namespace {

/// eos_token_id of a JSON file; none if it has no such key.
std::vector<std::int32_t> end_ids_of(const std::string& path) {
  if (!path_exists(path)) return {};
  try {
    const auto json = parse_json<nlohmann::json>(read_file(path, kMaxConfigBytes));
    const auto ids = json.value("eos_token_id", nlohmann::json());
    if (ids.is_null()) return {};
    std::vector<std::int32_t> out;
    for (const auto& id : ids.is_array() ? ids : nlohmann::json::array({ids}))
      out.push_back(checked_cast<std::int32_t>(json_integer(id), "eos_token_id"));
    return out;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::kData, path + " is damaged: its eos_token_id is not a token id",
                "a number, or a list of numbers, is expected");
  } catch (Error& error) {
    throw error.in(path);
  }
}

}  // namespace

std::string find_model_folder(const std::string& path) {
  const std::string folder = checkpoint_folder(path);
  if (!is_folder(folder))
    throw Error(ErrorKind::kConfig, fmt::format("{} is not a folder", path),
                path.ends_with(".json") ? fmt::format("use --model runs/{}, the run of this config",
                                                      std::filesystem::path(path).stem().string())
                                        : "name a checkpoint, a run folder, or an HF model folder");
  if (path_exists(folder + "/config.json")) return folder;
  require_model_config(folder);
  throw Error(ErrorKind::kConfig,
              fmt::format("{} is not a model folder: it has no config.json", path),
              "name a checkpoint, a run folder, or an HF model folder");
}

std::vector<std::int32_t> end_ids(const std::string& folder) {
  auto ids = end_ids_of(folder + "/generation_config.json");
  return ids.empty() ? end_ids_of(folder + "/config.json") : ids;
}

}  // namespace hgt
