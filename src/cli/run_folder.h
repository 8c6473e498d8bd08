#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/file.h"

namespace hgt {

/// A run folder that this process alone works in, for as long as this lives.
struct RunFolder {
  std::string path;
  File lock;
  std::optional<std::string> previous_config;  ///< text of the config.json that lay there
};

/// Makes the folder, or with `resume` takes over one that a run left. Error(kConfig) where it holds
/// a run and `resume` is false, holds something else, or where another process works in it.
RunFolder claim_run_folder(const std::string& path, bool resume);

struct SavedStep {
  std::string path;  ///< of the checkpoint
  std::int64_t step = 0;
};

/// The newest checkpoint of a run folder, nothing where it has none.
std::optional<SavedStep> newest_checkpoint(const std::string& run_dir);

/// What a resumed run changes, "training.train_iters: 200, was 100" each. Error(kConfig) names
/// every change that would make another model or other batches of the run: those cannot be.
std::vector<std::string> config_changes(const nlohmann::json& previous, const nlohmann::json& now);

}  // namespace hgt
