#include "run_folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file_ops.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/config/run_checkpoints.h"

#include "detached_run.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".lock";
constexpr const char* kNextConfigEnd = ".next.json";

/// The keys that determine the model and the batches.
constexpr std::array kFrozen{std::string_view("/model"), std::string_view("/training/seed"),
                             std::string_view("/training/seq_length"),
                             std::string_view("/train_batch_size"), std::string_view("/data")};
/// Exceptions: the origin of the weights, and keys that matter only when the model generates text.
constexpr std::array kNotFrozen{std::string_view("/model/init"),
                                std::string_view("/model/bos_token_id"),
                                std::string_view("/model/eos_token_id")};

/// Whether the key is a path of data. The checkpoint shows whether it is the same data.
bool is_data_path(std::string_view pointer) {
  return (pointer.starts_with("/data/train_data_path") ||
          pointer.starts_with("/data/valid_data_path")) &&
         !pointer.ends_with("/weight");
}

bool is_frozen(std::string_view pointer) {
  return !is_data_path(pointer) && std::ranges::find(kNotFrozen, pointer) == kNotFrozen.end() &&
         std::any_of(kFrozen.begin(), kFrozen.end(), [&](std::string_view key) {
           return pointer == key || (pointer.starts_with(key) && pointer[key.size()] == '/');
         });
}

/// "/training/seed" as the command line spells it: "training.seed".
std::string dotted(const std::string& pointer) {
  std::string key = pointer.substr(1);
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

/// The resolved config of the run in a folder; nullopt if the file was removed. Error(kData) if it
/// is damaged.
std::optional<nlohmann::json> read_resolved_config(const std::string& path) {
  const std::string file = path + "/resolved.json";
  if (!path_exists(file)) return std::nullopt;
  nlohmann::json json = try_parse_json<nlohmann::json>(read_file(file, kMaxResolvedBytes));
  if (!json.is_object())
    throw Error(ErrorKind::kData, file + " is damaged: it is not a JSON object",
                "remove it: the run can be resumed without it");
  return json;
}

/// Whether the folder holds anything of a run that could be resumed or lost.
bool has_begun(const std::string& path) {
  if (has_metrics(path)) return true;
  try {
    const std::optional<BranchOrigin> origin = read_origin(path);
    return newest_checkpoint(path) || !list_incomplete(path).empty() ||
           (origin && !origin->checkpoint.empty());
  } catch (const Error&) {
    return true;  // it cannot be read now, but may be readable later
  }
}

/// The temporary name of a file that the launcher replaces as a whole (write_file_atomically).
bool is_temporary(const std::string& name) {
  const std::size_t at = name.rfind(kUnfinished);
  if (at == std::string::npos) return false;
  constexpr std::array kFiles{"config.json",        "config.next.json", "resolved.json",
                              "resolved.next.json", "run.json",         kDetachedFile};
  const std::string file = name.substr(0, at);
  const std::string suffix = name.substr(at + std::string_view(kUnfinished).size());
  return std::find(kFiles.begin(), kFiles.end(), file) != kFiles.end() && suffix.size() == 8 &&
         suffix.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// If a process was killed while it began a branch, completes that. Removes the config of a job
/// that began no branch.
void complete_branch(const std::string& path) {
  try {
    put_config_in_place(path);
  } catch (const Error&) {
    // The branch is not known, so only --resume PATH can resume; that brings its own config.
  }
  std::error_code ignored;
  for (const char* name : {"/resolved", "/config"})
    fs::remove(path + name + kNextConfigEnd, ignored);
}

/// Removes files that a killed process left incomplete.
void remove_leftovers(const std::string& path) {
  complete_branch(path);
  for (const std::string& name : list_folder(path))
    if (is_temporary(name)) remove_file(path + "/" + name);
  try {
    remove_unfinished(path);
  } catch (const Error&) {
    // It stays until the next save.
  }
}

/// Whether hgtrain made the folder for a run: a model's folder has a config.json, too, but none of
/// these.
bool is_run_folder(const std::string& path) {
  return path_exists(path + "/resolved.json", ErrorKind::kConfig) ||
         path_exists(path + "/run.json", ErrorKind::kConfig) ||
         path_exists(path + "/" + kDetachedFile, ErrorKind::kConfig);
}

/// Error(kConfig) if anything but a run lies at `path`.
void refuse_what_is_no_run(const std::string& path) {
  if (!path_exists(path, ErrorKind::kConfig) || is_run_folder(path)) return;
  if (!is_folder(path, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("{} is not a folder", path),
                "give another --run_dir");
  for (const std::string& name : list_folder(path))
    if (name != kLockName && !is_temporary(name))
      throw Error(ErrorKind::kConfig, fmt::format("{} is neither empty nor a run folder", path),
                  fmt::format("{}take another one: --run_dir {}",
                              name == "logs" ? "if it has logs of a run, its first host has the "
                                               "rest: name that one first to go on; otherwise "
                                             : "",
                              shell_word(free_path(path))));
}

/// Makes the folder and those above it; their names are durable on return.
void make_durable_folder(const std::string& path) {
  std::vector<std::string> made;
  for (std::string folder = path; !path_exists(folder); folder = parent_folder(folder))
    made.push_back(folder);
  make_folders(path);
  for (const std::string& folder : made) sync_folder(parent_folder(folder));
}

File make_and_lock(const std::string& path) {
  try {
    make_durable_folder(path);
  } catch (const Error& e) {
    throw Error(ErrorKind::kConfig, e.message(), "take another folder: --run_dir DIR");
  }
  return take_lock(path, "--run_dir");
}

}  // namespace

/// A launcher that was killed may hold the lock for another moment, until all of its forked
/// children have closed what they inherited.
File take_lock(const std::string& path, const std::string& flag) {
  constexpr int kTries = 20;
  for (int attempt = 1; attempt <= kTries; ++attempt) {
    if (auto lock = lock_if_free(path, flag)) return std::move(*lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error(ErrorKind::kConfig,
              fmt::format("the run folder {} is in use by another hgtrain", path),
              fmt::format("`hgtrain status {}` shows it; wait for it or stop it, or take another "
                          "one: {} {}",
                          shell_word(path), flag, shell_word(free_path(path))));
}

std::optional<File> lock_if_free(const std::string& path, const std::string& flag) {
  File lock =
      File::open(path + "/" + kLockName, O_RDWR | O_CREAT | O_CLOEXEC, 0666, ErrorKind::kConfig);
  if (file_ops().flock(lock.fd(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw Error(ErrorKind::kConfig,
              fmt::format("cannot lock {}: {}", lock.path(), std::strerror(errno)),
              fmt::format("take a folder on a file system that has locks: {} DIR", flag));
}

RunFolder claim_run_folder(const std::string& path, bool resume) {
  refuse_what_is_no_run(path);  // a folder of somebody else gets no lock file
  refuse_run_elsewhere(path, "--run_dir");
  RunFolder folder{path, make_and_lock(path), is_run_folder(path) && has_begun(path), std::nullopt};
  if (folder.holds_run && !resume)
    throw Error(ErrorKind::kConfig, fmt::format("{} holds a run already", path),
                fmt::format("to resume it: --resume auto; to start another run: --run_dir {}",
                            shell_word(free_path(path))));
  remove_leftovers(path);
  forget_run_elsewhere(path);
  if (folder.holds_run) folder.previous_config = read_resolved_config(path);
  return folder;
}

std::optional<nlohmann::json> read_given_config(const std::string& path) {
  const std::string file = path + "/config.json";
  if (!is_run_folder(path) || !path_exists(file)) return std::nullopt;
  nlohmann::json json = try_parse_json<nlohmann::json>(read_file(file, kMaxResolvedBytes));
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

std::optional<std::int64_t> batch_size_of_run(const std::string& path) {
  if (!is_run_folder(path) || !has_begun(path)) return std::nullopt;
  const std::optional<nlohmann::json> json = read_resolved_config(path);
  if (!json) return std::nullopt;
  const auto size = json->find("train_batch_size");
  if (size == json->end() || !size->is_number_integer() || *size < 1) return std::nullopt;
  return size->get<std::int64_t>();
}

JobConfig::JobConfig(const RunFolder& folder, const std::string& given, const std::string& resolved)
    : folder_(folder.path) {
  const std::string end = folder.holds_run ? kNextConfigEnd : ".json";
  write_file_atomically(folder_ + "/resolved" + end, resolved);
  write_file_atomically(folder_ + "/config" + end, given);
}

JobConfig::~JobConfig() {
  try {
    remove_leftovers(folder_);
  } catch (const Error&) {
    // The next start removes it.
  }
}

std::string JobConfig::path_of(const std::string& name) const {
  const std::string next = folder_ + "/" + name + kNextConfigEnd;
  return path_exists(next) ? next : folder_ + "/" + name + ".json";
}

void JobConfig::replace_resolved(const std::string& resolved) {
  write_file_atomically(path(), resolved);
}

// If this process is killed, the next start removes the file.
SharedMark::SharedMark(const RunFolder& folder)
    : path_(folder.path + "/run.json" + kUnfinished + random_suffix()) {
  File::open(path_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC);
}

SharedMark::~SharedMark() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

namespace {

/// All values by JSON pointer. A list of numbers or of one text is one value.
nlohmann::json values_of(const nlohmann::json& config, const std::string& pointer = "") {
  nlohmann::json out = nlohmann::json::object();
  const bool is_value = !config.is_structured() || config.empty() ||
                        (config.is_array() && (config.front().is_number() ||
                                               (config.size() == 1 && config.front().is_string())));
  if (is_value) {
    out[pointer] = config;
    return out;
  }
  for (const auto& [key, below] : config.items()) out.update(values_of(below, pointer + "/" + key));
  return out;
}

/// A value that changed: "training.seed: 2, was 1", or "absent".
struct Change {
  std::string pointer, text;
};

std::vector<Change> changes_between(const nlohmann::json& previous, const nlohmann::json& now) {
  std::vector<Change> out;
  const auto before = values_of(previous), after = values_of(now);
  auto all = after;
  all.update(before);
  for (const auto& [pointer, unused] : all.items()) {
    const auto text_in = [&, &at = pointer](const nlohmann::json& values) {
      return values.contains(at) ? values[at].dump() : "absent";
    };
    const std::string is = text_in(after), was = text_in(before);
    if (is != was)
      out.push_back({pointer, fmt::format("{}: {}, was {}", dotted(pointer), is, was)});
  }
  return out;
}

}  // namespace

void require_same_training(const nlohmann::json& previous, const nlohmann::json& now) {
  std::vector<std::string> frozen;
  bool is_other_model = false;
  for (const Change& change : changes_between(previous, now)) {
    if (!is_frozen(change.pointer)) continue;
    frozen.push_back(change.text);
    is_other_model |= change.pointer.starts_with("/model/");
  }
  if (frozen.empty()) return;
  const std::string list = fmt::format("{}", fmt::join(frozen, "\n    "));
  throw Error(
      ErrorKind::kConfig, fmt::format("a resumed run cannot change these keys:\n    {}", list),
      is_other_model ? "set them back, or start a new run with another --run_dir"
                     : "set them back; or start a new run from this one's weights: model.init with "
                       "the checkpoint's folder, and another --run_dir");
}

std::vector<std::string> config_changes(const nlohmann::json& previous, const nlohmann::json& now) {
  std::vector<std::string> out;
  const nlohmann::json::json_pointer uses_fp16("/fp16/enabled");
  const bool is_without_fp16 = now.contains(uses_fp16) && now[uses_fp16] == false;
  for (Change& change : changes_between(previous, now)) {
    // Without fp16, nothing reads the section's other keys.
    if (is_without_fp16 && change.pointer.starts_with("/fp16/") &&
        change.pointer != uses_fp16.to_string())
      continue;
    if (change.pointer == "/fp16/initial_scale_power")
      change.text += " (a checkpoint whose weights have changed keeps its loss scale)";
    out.push_back(std::move(change.text));
  }
  return out;
}

}  // namespace hgt
