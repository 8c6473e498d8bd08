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
  std::optional<std::string> previous_config;  ///< text of the config.json of the run it holds
};

/// Makes the folder, or with `resume` takes over one that a run left. A run that made neither a
/// step nor a checkpoint counts as none. Error(kConfig) where it holds a run and `resume` is false,
/// holds something else, or where another process works in it.
RunFolder claim_run_folder(const std::string& path, bool resume);

/// The file with a job's config: the run folder's config.json, or where that is of the run which is
/// gone on with, config.next.json until the job has made a step. Goes if it has made none.
class JobConfig {
 public:
  /// Error(kData) where it cannot be written. `folder` must outlive this.
  JobConfig(const RunFolder& folder, const std::string& text);
  JobConfig(const JobConfig&) = delete;
  JobConfig& operator=(const JobConfig&) = delete;
  ~JobConfig();
  const std::string& path() const { return path_; }
  /// The job made a step: from now on it is config.json.
  void put_in_place();

 private:
  const std::string final_path_;
  std::string path_;
};

/// What a resumed run changes, "training.train_iters: 200, was 100" each. Error(kConfig) names
/// every change that would make another model or other batches of the run: those cannot be.
std::vector<std::string> config_changes(const nlohmann::json& previous, const nlohmann::json& now);

}  // namespace hgt
