#include "hgtrain/checkpoint/run_copy.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/text.h"
#include "hgtrain/config/run_checkpoints.h"

namespace hgt {
namespace {

constexpr const char* kCheckpoints = "checkpoints/";
constexpr const char* kOwner = "copy_of";

/// The names of the branch's checkpoints, newest first.
std::vector<std::string> checkpoint_names(const std::string& run_dir) {
  std::vector<std::string> names = list_checkpoints(run_dir);
  for (std::string& name : names) name = std::filesystem::path(name).filename().string();
  return names;
}

/// The new file is durable on return.
void copy_file(const std::string& from, const std::string& to, CopyProgress& progress) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  File in = File::open(from, O_RDONLY);
  File out = File::open(to, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<std::byte> piece(kPieceBytes);
  while (const std::size_t bytes = in.read(piece)) {
    out.write(std::span(piece).first(bytes));
    ++progress;
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

RunCopy::RunCopy(std::string run_dir, std::string copy_dir)
    : run_dir_(std::move(run_dir)),
      copy_dir_(std::move(copy_dir)),
      owner_(fmt::format("{} on {}\n{}\n", std::filesystem::absolute(run_dir_).string(),
                         host_name(), random_suffix())) {
  constexpr const char* kHint = "name another folder in checkpoint.copy_to";
  try {
    make_folders(copy_dir_);
    const std::vector<std::string> files = list_folder(copy_dir_);
    if (!files.empty() && !path_exists(there(kOwner)))
      throw Error(ErrorKind::kConfig, copy_dir_ + " is neither empty nor the copy of a run", kHint);
    make_folders(there(kCheckpoints));
  } catch (const Error& e) {
    throw Error(ErrorKind::kConfig, e.message(), kHint);
  }
  for (const std::string& name : checkpoint_names(copy_dir_)) {
    if (has_same(name)) break;  // the run may have removed older ones
    if (was_left(name)) continue;
    throw Error(
        ErrorKind::kConfig,
        fmt::format("{} has a checkpoint that is not of the run in {}: {}", copy_dir_, run_dir_,
                    name),
        fmt::format("to resume the run that was copied there: --run_dir {} --resume auto, and "
                    "another folder in checkpoint.copy_to",
                    shell_word(copy_dir_)));
  }
  write_file_atomically(there(kOwner), owner_);
}

bool RunCopy::has_same(const std::string& name) const {
  return are_same(here(kCheckpoints + name), there(kCheckpoints + name));
}

/// Whether the copy's checkpoint is of a branch that the run has left.
bool RunCopy::was_left(const std::string& name) const {
  if (!path_exists(here(kCheckpoints))) return false;
  for (const std::string& other : list_folder(here(kCheckpoints)))
    if (other.starts_with(name + kSuperseded) &&
        are_same(here(kCheckpoints + other), there(kCheckpoints + name)))
      return true;
  return false;
}

void RunCopy::update(CopyProgress& progress) {
  if (const std::string owner = read_file(there(kOwner), 1 << 16); owner != owner_)
    throw Error(ErrorKind::kData, fmt::format("another run, {}, copies its checkpoints to {}",
                                              owner.substr(0, owner.find('\n')), copy_dir_));
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
  point("latest", names.empty() ? "" : names.front());
  const std::string best = here("checkpoints/best");
  point("best", path_exists(best) ? trimmed(read_file(best, 1 << 16)) : "");
  for (const std::string& name : checkpoint_names(copy_dir_)) {
    if (std::ranges::find(names, name) != names.end()) continue;
    discard_checkpoint(there(kCheckpoints + name));
    ++progress;
  }
  sync_folder(there(kCheckpoints));
  sync_folder(copy_dir_);
}

/// The run may remove the checkpoint meanwhile; then the copy goes without it.
void RunCopy::copy_checkpoint(const std::string& name, CopyProgress& progress) {
  if (copied_.contains(name)) return;
  const std::string from = here(kCheckpoints + name), to = there(kCheckpoints + name),
                    made = to + kUnfinished + random_suffix();
  try {
    if (has_same(name)) {
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
