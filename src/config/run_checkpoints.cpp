#include "hgtrain/config/run_checkpoints.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/xxh3.h"

namespace hgt {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::int64_t kMaxNameBytes = 1 << 16, kMaxManifestBytes = 64 << 20;

std::string checkpoints_of(const std::string& run_dir) {
  return run_dir + "/checkpoints";
}

std::string next_config(const std::string& run_dir) {
  return run_dir + "/resolved.next.json";
}

std::uint64_t hash_of_next_config(const std::string& run_dir) {
  const std::string path = next_config(run_dir);
  return path_exists(path) ? xxh3(read_file(path, kMaxResolvedBytes)) : 0;
}

/// The name of a checkpoint's folder in the file `origin`.
std::string name_from(const std::string& run_dir, const std::string& checkpoint) {
  if (checkpoint.empty()) return "";
  std::error_code error;
  const fs::path path = fs::weakly_canonical(checkpoint, error);
  if (error) throw_file_error("find", checkpoint, error.value());
  const std::string name = path.filename().string();
  const bool own = path.parent_path() == fs::weakly_canonical(checkpoints_of(run_dir), error) &&
                   step_of(name) >= 0;
  return own ? name : path.string();
}

bool has_manifest(const std::string& folder) {
  return path_exists(folder + "/" + kManifestName);
}

/// The checkpoint that a file `latest` or `best` names.
std::optional<std::string> named_checkpoint(const std::string& file) {
  if (!path_exists(file) || is_folder(file)) return std::nullopt;
  const std::string text = read_file(file, kMaxNameBytes);
  const std::string name = text.substr(0, text.find('\n'));
  const std::string folder = parent_folder(file) + "/" + name;
  if (step_of(name) < 0 || !has_manifest(folder)) return std::nullopt;
  return folder;
}

/// Folders named like checkpoints of the branch, newest first.
std::vector<std::string> list_step_folders(const std::string& run_dir) {
  const std::string root = checkpoints_of(run_dir);
  if (!path_exists(root)) return {};
  const std::optional<BranchOrigin> origin = read_origin(run_dir);
  const std::int64_t last =
      origin ? step_of(origin->checkpoint) : std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : list_folder(root))
    if (const std::int64_t step = step_of(name); step >= 0 && step <= last)
      found.emplace_back(step, root + "/" + name);
  std::sort(found.rbegin(), found.rend());
  std::vector<std::string> folders;
  folders.reserve(found.size());
  for (auto& [step, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

nlohmann::json manifest_of(const std::string& folder) {
  return try_parse_json<nlohmann::json>(read_file(folder + "/" + kManifestName, kMaxManifestBytes));
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStepPrefix, step);
}

std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  std::int64_t step = -1;
  const auto end =
      std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return end.ec == std::errc() && step >= 0 && step_name(step) == name ? step : -1;
}

BranchOrigin parse_origin(std::string_view text) {
  constexpr std::size_t kHashDigits = 16;
  BranchOrigin origin;
  const char* const digits_end = text.data() + std::min(text.size(), kHashDigits);
  bool whole = text.size() >= kHashDigits + 2 && text[kHashDigits] == '\n' &&
               text.ends_with('\n') &&
               std::from_chars(text.data(), digits_end, origin.config_hash, 16).ptr == digits_end;
  if (whole) {
    origin.checkpoint = text.substr(kHashDigits + 1, text.size() - kHashDigits - 2);
    whole = origin.checkpoint.empty() || origin.checkpoint.front() == '/' ||
            step_of(origin.checkpoint) >= 0;
  }
  if (!whole)
    throw Error(ErrorKind::kData,
                "the file is damaged, so the beginning of the run's branch is not known",
                "name the checkpoint to resume from: --resume RUN_DIR/checkpoints/step_N");
  return origin;
}

std::optional<BranchOrigin> read_origin(const std::string& run_dir) {
  const std::string path = checkpoints_of(run_dir) + "/origin";
  if (!path_exists(path)) return std::nullopt;
  try {
    return parse_origin(read_file(path, kMaxNameBytes));
  } catch (Error& e) {
    e.in(path);
    throw;
  }
}

std::string origin_folder(const std::string& run_dir, const BranchOrigin& origin) {
  return step_of(origin.checkpoint) < 0 ? origin.checkpoint
                                        : checkpoints_of(run_dir) + "/" + origin.checkpoint;
}

BranchOrigin begin_branch(const std::string& run_dir, const std::string& checkpoint) {
  const BranchOrigin origin{name_from(run_dir, checkpoint), hash_of_next_config(run_dir)};
  write_file_atomically(checkpoints_of(run_dir) + "/origin",
                        fmt::format("{:016x}\n{}\n", origin.config_hash, origin.checkpoint));
  put_config_in_place(run_dir);
  return origin;
}

void forget_origin(const std::string& run_dir) {
  const std::string root = checkpoints_of(run_dir);
  if (!path_exists(root + "/origin")) return;
  remove_file(root + "/origin");
  sync_folder(root);
}

void remove_unfinished(const std::string& run_dir) {
  const std::string root = checkpoints_of(run_dir);
  if (!is_folder(root)) return;
  for (const std::string& name : list_folder(root))
    if (name.find(kUnfinished) != std::string::npos) remove_tree(root + "/" + name);
}

void discard_checkpoint(const std::string& folder) {
  const std::string doomed = folder + kUnfinished + random_suffix();
  rename_path(folder, doomed);
  sync_folder(parent_folder(folder));
  remove_tree(doomed);
}

void put_config_in_place(const std::string& run_dir) {
  const std::string next = next_config(run_dir);
  const std::optional<BranchOrigin> origin = read_origin(run_dir);
  if (!origin || !path_exists(next) || hash_of_next_config(run_dir) != origin->config_hash) return;
  // resolved.json is moved last, because the origin has its hash: until then all of this can be
  // repeated.
  if (const std::string given = run_dir + "/config.next.json"; path_exists(given)) {
    rename_path(given, run_dir + "/config.json");
    sync_folder(run_dir);
  }
  rename_path(next, run_dir + "/resolved.json");
  sync_folder(run_dir);
}

std::vector<std::string> list_checkpoints(const std::string& run_dir) {
  std::vector<std::string> folders = list_step_folders(run_dir);
  std::erase_if(folders, [](const std::string& folder) { return !has_manifest(folder); });
  return folders;
}

std::vector<std::string> list_incomplete(const std::string& run_dir) {
  std::vector<std::string> folders = list_step_folders(run_dir);
  std::erase_if(folders, has_manifest);
  return folders;
}

bool has_metrics(const std::string& run_dir) {
  std::error_code missing;
  const auto size = fs::file_size(run_dir + "/metrics.jsonl", missing);
  return !missing && size > 0;
}

void require_whole_checkpoint(const std::string& run_dir) {
  if (newest_checkpoint(run_dir)) return;
  const std::vector<std::string> incomplete = list_incomplete(run_dir);
  if (incomplete.empty() && (read_origin(run_dir) || !has_metrics(run_dir))) return;
  throw Error(ErrorKind::kData,
              incomplete.empty()
                  ? fmt::format("{} has made steps, but {} has no checkpoint any more", run_dir,
                                checkpoints_of(run_dir))
                  : fmt::format("no checkpoint of the run is whole: {} has no {}{}",
                                incomplete.front(), kManifestName,
                                incomplete.size() > 1 ? ", nor has any of the older ones" : ""),
              "copy the missing files back, or start a new run, with another --run_dir");
}

std::optional<std::int64_t> saved_step(const std::string& folder) {
  if (!has_manifest(folder)) return std::nullopt;
  nlohmann::json json;
  try {
    json = manifest_of(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
  const auto step = json.is_object() ? json.find("step") : json.end();
  if (step == json.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

std::optional<SavedStep> newest_checkpoint(const std::string& run_dir) {
  const std::vector<std::string> folders = list_checkpoints(run_dir);
  if (folders.empty()) return std::nullopt;
  return SavedStep{folders.front(), step_of(fs::path(folders.front()).filename().string())};
}

std::string checkpoint_folder(const std::string& path) {
  if (const std::string name = fs::path(path).filename().string();
      name == "latest" || name == "best")
    if (const auto named = named_checkpoint(path)) return *named;
  const std::string run = path.substr(0, path.rfind('@'));
  const bool marked = !path_exists(path) && is_folder(run);
  if (marked && path == run + "@best") {
    if (const auto best = named_checkpoint(checkpoints_of(run) + "/best")) return *best;
    throw Error(ErrorKind::kConfig, fmt::format("the run in {} has no best checkpoint", run),
                "set checkpoint.keep_best to keep one; without @best the newest one is used");
  }
  const std::string folder = marked && path == run + "@latest" ? run : path;
  if (const auto newest = newest_checkpoint(folder)) return newest->path;
  if (is_folder(checkpoints_of(folder)))
    throw Error(ErrorKind::kConfig, fmt::format("the run in {} has no checkpoint yet", folder),
                "name a checkpoint, a run folder with one, or an HF model folder");
  return folder;
}

void require_model_config(const std::string& folder) {
  if (has_manifest(folder) && !path_exists(folder + "/config.json"))
    throw Error(ErrorKind::kData, fmt::format("{} is damaged: it has no config.json", folder),
                "name another checkpoint of the run");
}

void check_model_config(const std::string& folder, std::string_view text) {
  if (!has_manifest(folder)) return;
  const auto json = manifest_of(folder);
  const nlohmann::json::json_pointer saved_hash("/files/config.json/xxh3");
  if (json.is_object() && json.contains(saved_hash) &&
      json[saved_hash] != fmt::format("{:016x}", xxh3(text)))
    throw Error(
        ErrorKind::kData,
        fmt::format("{}/config.json is damaged: it does not match the manifest's hash", folder));
}

}  // namespace hgt
