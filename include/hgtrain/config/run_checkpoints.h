#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

// RUN/checkpoints holds one line of history, the run's branch:
//   step_00000100/              a checkpoint of the branch
//   step_00000100.superseded/   a checkpoint of a branch that the run has left
//   latest, best                names of the newest checkpoint and of the one that evaluated best
//   origin                      the branch's beginning; exists until its first checkpoint is saved

inline constexpr const char* kManifestName = "manifest.json";
/// The largest config that is read, and the largest config.json of a model.
inline constexpr std::int64_t kMaxConfigBytes = 1 << 20;
/// The largest resolved.json, which has all keys: it is longer than the config, but must fit into a
/// message to the other ranks.
inline constexpr std::int64_t kMaxResolvedBytes = 8 << 20;
/// Part of the name of a file or folder that is being written or removed in RUN/checkpoints.
inline constexpr const char* kUnfinished = ".tmp-";

/// The end of the name of a checkpoint of a branch that the run has left; a number may follow.
inline constexpr const char* kSuperseded = ".superseded";

/// "step_00000100"
std::string step_name(std::int64_t step);

/// The step of a name that step_name makes; -1 for other names.
std::int64_t step_of(std::string_view name);

/// The beginning of a branch that has saved no checkpoint yet.
struct BranchOrigin {
  /// The name of a checkpoint in the run folder, the absolute path of another one, or "": step 0.
  std::string checkpoint;
  std::uint64_t config_hash = 0;  ///< of the resolved.json that belongs to the branch
};

BranchOrigin parse_origin(std::string_view text);  ///< Error(kData) if the text is damaged
/// The branch's origin; nullopt if the branch has saved a checkpoint. Error(kData) if the file is
/// damaged.
std::optional<BranchOrigin> read_origin(const std::string& run_dir);
/// The folder of the checkpoint from which the branch begins; "" for step 0.
std::string origin_folder(const std::string& run_dir, const BranchOrigin& origin);

/// Begins a branch at the folder `checkpoint` ("": at step 0): one rename moves the run to it, and
/// is durable on return. RUN/config.next.json and resolved.next.json, if they are there, become its
/// config.json and resolved.json. If the folder is gone, the run has the older checkpoints.
BranchOrigin begin_branch(const std::string& run_dir, const std::string& checkpoint);
/// Removes the file `origin`. Call it once the branch's first checkpoint is durable.
void forget_origin(const std::string& run_dir);
/// Removes what a killed process left half written or half removed.
void remove_unfinished(const std::string& run_dir);
/// Removes the folder of a checkpoint in such a way that a part of it never looks like a
/// checkpoint.
void discard_checkpoint(const std::string& folder);
/// Puts the branch's config in place if a crash came between the steps of begin_branch.
void put_config_in_place(const std::string& run_dir);

/// The checkpoints of the branch that the run is on, newest first: folders in RUN/checkpoints with
/// a manifest. Error(kData) if the origin is damaged, because the branch is then unknown.
std::vector<std::string> list_checkpoints(const std::string& run_dir);

struct SavedStep {
  std::string path;  ///< of the checkpoint
  std::int64_t step = 0;
};
/// The first of list_checkpoints.
std::optional<SavedStep> newest_checkpoint(const std::string& run_dir);

/// The folders of the branch that are named like checkpoints but have no manifest, newest first:
/// checkpoints that somebody has removed or copied only in part.
std::vector<std::string> list_incomplete(const std::string& run_dir);

/// Whether metrics.jsonl has steps of the run.
bool has_metrics(const std::string& run_dir);

/// Error(kData) if the branch has saved checkpoints, but all are gone or have no manifest: a run
/// that began again at step 0 would remove its metrics and what may still be completed.
void require_whole_checkpoint(const std::string& run_dir);

/// The step that the manifest in `folder` names; nullopt if it has none that can be read.
std::optional<std::int64_t> saved_step(const std::string& folder);

/// The folder that the user means by `path`: RUN and RUN@latest are a run folder's newest
/// checkpoint, RUN@best is the one that evaluated best; any other path is itself. Error(kConfig) if
/// the run has no such checkpoint.
std::string checkpoint_folder(const std::string& path);

/// Error(kData) if the folder is a checkpoint that has lost its config.json.
void require_model_config(const std::string& folder);

/// Error(kData) if `folder` is a checkpoint and `text` is not the config.json that it saved.
void check_model_config(const std::string& folder, std::string_view text);

}  // namespace hgt
