#include "hgtrain/checkpoint/run_copy.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {
namespace {

constexpr const char* kCheckpoints = "checkpoints/";
constexpr const char* kOwner = "copy_of";  // in a copy
constexpr const char* kId = "copy_id";     // in a run that has copies: a number, and their folders

/// None if there is no file.
std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  if (!path_exists(file)) return lines;
  std::istringstream text(read_file(file, 1 << 16));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

bool has_anything(const std::string& folder) {
  return path_exists(folder) && !list_folder(folder).empty();
}

struct InUse {
  InUse(CopyProgress& all, std::int64_t step) : progress(all) { progress.step = step; }
  ~InUse() { progress.step = -1; }
  CopyProgress& progress;
};

/// The names of the branch's checkpoints, newest first.
std::vector<std::string> checkpoint_names(const std::string& run_dir) {
  std::vector<std::string> names = list_checkpoints(run_dir);
  for (std::string& name : names) name = std::filesystem::path(name).filename().string();
  return names;
}

/// The new file is durable on return.
void copy_file(const std::string& from, const std::string& to, CopyProgress& progress) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  constexpr std::size_t kUnsyncedBytes = std::size_t{64} << 20;  // a sync of more is no progress
  File in = File::open(from, O_RDONLY);
  File out = File::open(to, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<std::byte> piece(kPieceBytes);
  std::size_t unsynced = 0;
  while (const std::size_t bytes = in.read(piece)) {
    out.write(std::span(piece).first(bytes));
    unsynced += bytes;
    if (unsynced >= kUnsyncedBytes) out.sync(), unsynced = 0;
    ++progress.work;
  }
  out.sync();
  out.close();
}

void replace_by_copy(const std::string& from, const std::string& to, CopyProgress& progress) {
  const std::string made = to + kUnfinished + random_suffix();
  copy_file(from, made, progress);
  rename_path(made, to);
}

void copy_folder(const std::string& from, const std::string& to, CopyProgress& progress) {
  make_folders(to);
  for (const std::string& name : list_folder(from)) {
    const std::string one = from + "/" + name, other = to + "/" + name;
    is_folder(one) ? copy_folder(one, other, progress) : copy_file(one, other, progress);
  }
  sync_folder(to);
}

/// A manifest has the hashes of all files of its checkpoint.
bool are_same(const std::string& one, const std::string& other) {
  constexpr std::int64_t kMaxBytes = 64 << 20;
  const std::string manifest = one + "/" + kManifestName, copied = other + "/" + kManifestName;
  return path_exists(manifest) && path_exists(copied) &&
         read_file(manifest, kMaxBytes) == read_file(copied, kMaxBytes);
}

}  // namespace

void RunCopy::open() {
  const std::string hint = "name another folder in checkpoint.copy_to";
  const std::string folder =
      (std::filesystem::absolute(copy_dir_) / "").lexically_normal().parent_path();
  try {
    std::vector<std::string> known = lines_of(here(kId));
    if (known.empty()) known.push_back(random_suffix());
    const std::string id = known[0];
    const auto write_known = [&] {
      write_file_atomically(here(kId), fmt::format("{}\n", fmt::join(known, "\n")));
    };
    const bool is_empty = !has_anything(copy_dir_),
               is_known = std::ranges::count(known, folder) > 0;
    if (is_known && is_empty)
      throw Error(ErrorKind::kConfig,
                  fmt::format("the copy of this run is no longer in {}, which is {}", copy_dir_,
                              path_exists(copy_dir_) ? "empty" : "not there"),
                  "mount its disk; if the copy is lost, " + hint);
    make_folders(copy_dir_);
    const std::vector<std::string> owner = lines_of(there(kOwner));
    if (!is_empty && owner.empty())
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} is neither empty nor the copy of a run", copy_dir_),
                  checkpoint_names(copy_dir_).empty()
                      ? hint
                      : fmt::format("to go on with the run that was resumed there: --run_dir {} "
                                    "--resume auto; or {}",
                                    shell_word(copy_dir_), hint));
    if (!is_empty && (owner.size() < 2 || owner[1] != id))
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} is the copy of another run, {}", copy_dir_, owner[0]), hint);
    make_folders(run_dir_);
    write_known();
    const std::string all =
        fmt::format("{} on {}\n{}\n{}\n", std::filesystem::absolute(run_dir_).string(), host_name(),
                    id, random_suffix());
    write_file_atomically(there(kOwner), all);
    if (!is_known) known.push_back(folder), write_known();
    owner_ = all;
  } catch (const Error& e) {
    throw Error(ErrorKind::kConfig, e.message(), e.hint().empty() ? hint : e.hint());
  }
}

void RunCopy::begin_run_in(const std::string& run_dir) {
  const std::string owner = run_dir + "/" + kOwner;
  if (!path_exists(owner)) return;
  remove_file(owner);
  sync_folder(run_dir);
}

void RunCopy::require_owner() const {
  if (!has_anything(copy_dir_))
    throw Error(ErrorKind::kData, copy_dir_ + " is empty or not there: is its disk mounted?");
  const std::vector<std::string> owner = lines_of(there(kOwner));
  if (owner.empty())
    throw Error(ErrorKind::kData, copy_dir_ + " is no copy any more: a run was resumed in it");
  if (fmt::format("{}\n", fmt::join(owner, "\n")) != owner_)
    throw Error(ErrorKind::kData,
                fmt::format("another run, {}, copies its checkpoints to {}", owner[0], copy_dir_));
}

void RunCopy::update(CopyProgress& progress) {
  if (owner_.empty()) open();
  require_owner();
  make_folders(there(kCheckpoints));
  remove_unfinished(copy_dir_);
  for (const std::string& name : list_folder(copy_dir_))
    if (name.find(kUnfinished) != std::string::npos) remove_file(there(name));
  const std::vector<std::string> names = checkpoint_names(run_dir_);
  for (const std::string& name : list_folder(run_dir_))
    if (name == "config.json" || name == "resolved.json" || name == "metrics.jsonl" ||
        (name.starts_with("products-") && name.ends_with(".txt")))
      replace_by_copy(here(name), there(name), progress);
  for (const std::string& name : names) copy_checkpoint(name, progress);
  if (!names.empty()) point("latest", names.front());
  const std::string best = here("checkpoints/best");
  point("best", path_exists(best) ? trimmed(read_file(best, 1 << 16)) : "");
  require_owner();
  if (names.empty() || !path_exists(there(kCheckpoints + names.front()))) return;
  for (const std::string& name : checkpoint_names(copy_dir_)) {
    if (std::ranges::find(names, name) != names.end()) continue;
    discard_checkpoint(there(kCheckpoints + name));
    ++progress.work;
  }
  sync_folder(there(kCheckpoints));
  sync_folder(copy_dir_);
}

/// The run may have removed the checkpoint; then the copy goes without it.
void RunCopy::copy_checkpoint(const std::string& name, CopyProgress& progress) {
  if (copied_.contains(name)) return;
  const InUse in_use(progress, step_of(name));
  const std::string from = here(kCheckpoints + name), to = there(kCheckpoints + name),
                    made = to + kUnfinished + random_suffix();
  try {
    if (are_same(from, to)) {
      copied_.insert(name);
      return;
    }
    copy_folder(from, made, progress);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove_all(made, ignored);  // the disk may be full
    if (path_exists(from)) throw;
    return;
  }
  if (path_exists(to)) discard_checkpoint(to);
  rename_path(made, to);
  sync_folder(there(kCheckpoints));
  copied_.insert(name);
}

/// Lets the copy's file `latest` or `best` name a checkpoint, if the copy has it: the run may have
/// saved it since the update began.
void RunCopy::point(const std::string& name, const std::string& checkpoint) const {
  const std::string file = there(kCheckpoints + name);
  if (!checkpoint.empty() && path_exists(there(kCheckpoints + checkpoint)))
    write_file_atomically(file, checkpoint + "\n");
  else if (path_exists(file))
    remove_file(file);
}

}  // namespace hgt
