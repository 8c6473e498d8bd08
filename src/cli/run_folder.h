#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"

namespace hgt {

/// A run folder that this process holds exclusively while this object lives.
struct RunFolder {
  std::string path;
  File lock;
  bool holds_run = false;                         ///< there is a run that can be resumed
  std::optional<nlohmann::json> previous_config;  ///< resolved.json of that run, if it is there
};

/// Makes the folder or, with `resume`, takes over one that a run has left. A run that made neither
/// a step nor a checkpoint does not count as a run. Error(kConfig) if the folder holds a run and
/// `resume` is false, if it holds something else, if another process works in it, or if --detach
/// has started its run on a host (detached_run.h). Removes the temporary files that a killed
/// process left.
RunFolder claim_run_folder(const std::string& path, bool resume);

/// Locks an existing folder, which `flag` chooses; nullopt if another process holds the lock.
/// Error(kConfig) if the file system has no locks.
std::optional<File> lock_if_free(const std::string& path, const std::string& flag);
/// The same, but Error(kConfig) if another process holds the lock for 2 s.
File take_lock(const std::string& path, const std::string& flag);

/// config.json of the run in the folder at `path`; nullopt if no run there has one.
std::optional<nlohmann::json> read_given_config(const std::string& path);

/// train_batch_size of the run in the folder at `path`; nullopt if no run there says it.
std::optional<std::int64_t> batch_size_of_run(const std::string& path);

/// The files with a job's config: config.json as the user gave it, for other runs and other numbers
/// of workers, and resolved.json for the workers of this job. If the folder holds the run that is
/// resumed, they are named config.next.json and resolved.next.json until the workers begin to make
/// steps, and are removed if the workers never do.
class JobConfig {
 public:
  /// Error(kData) if they cannot be written. `folder` must outlive this.
  JobConfig(const RunFolder& folder, const std::string& given, const std::string& resolved);
  JobConfig(const JobConfig&) = delete;
  JobConfig& operator=(const JobConfig&) = delete;
  ~JobConfig();
  /// The path of resolved.json, or of resolved.next.json while it has that name.
  std::string path() const { return path_of("resolved"); }
  /// The same for config.json.
  std::string given_path() const { return path_of("config"); }
  /// Replaces the resolved config for an attempt on another number of workers. Error(kData) if it
  /// cannot be written.
  void replace_resolved(const std::string& resolved);

 private:
  std::string path_of(const std::string& name) const;
  const std::string folder_;
};

/// A file with a random name in the run folder while this object lives, by which a host can tell
/// that it sees the same folder.
class SharedMark {
 public:
  explicit SharedMark(const RunFolder& folder);
  SharedMark(const SharedMark&) = delete;
  SharedMark& operator=(const SharedMark&) = delete;
  ~SharedMark();
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

/// Error(kConfig) names what a resumed run must not change, because the model or the batches would
/// be different. Both configs are resolved ones.
void require_same_training(const nlohmann::json& previous, const nlohmann::json& now);

/// All that differs, "training.train_iters: 200, was 100" each.
std::vector<std::string> config_changes(const nlohmann::json& previous, const nlohmann::json& now);

}  // namespace hgt
