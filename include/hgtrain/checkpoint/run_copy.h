#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace hgt {

/// What other threads can know of an update.
struct CopyProgress {
  std::atomic<std::uint64_t> work{0};  ///< grows as long as it goes on
  /// Of the checkpoint that is being copied; -1: none. If the run keeps that one meanwhile, each
  /// update gives the copy a new checkpoint, however long it takes.
  std::atomic<std::int64_t> step{-1};
};

/// A copy of a run folder, on a disk that survives if that of the run folder is lost: its configs,
/// metrics.jsonl, and the checkpoints of the branch that the run is on. It is a run folder itself,
/// in which the run can be resumed. Nothing else may write there meanwhile.
class RunCopy {
 public:
  RunCopy(std::string run_dir, std::string copy_dir)
      : run_dir_(std::move(run_dir)), copy_dir_(std::move(copy_dir)) {}

  /// Error(kConfig) if `copy_dir` cannot be made, or is neither empty nor the copy of this run: of
  /// another one, of none, or a run was resumed in it. A random number in the file `copy_id` of the
  /// run folder, which the copy has in `copy_of`, says whose copy it is. That file also names the
  /// folders of copies: if one was made in `copy_dir` and nothing is there now, its disk may not be
  /// mounted, and that is an Error(kConfig), too. From now on the folder is this object's, and
  /// update() of an earlier one fails.
  void open();

  /// Opens the folder if that was not done before, then copies the checkpoints that are missing,
  /// newest first. If the newest one is there then, it removes those that the run did not have any
  /// more when the update began. A checkpoint is either whole there or not there, as in the run
  /// folder. Meanwhile the run may save and remove checkpoints. Error as of open(), or Error(kData)
  /// if a file cannot be read or written; the next call continues.
  void update(CopyProgress& progress);

  const std::string& folder() const { return copy_dir_; }

  /// A run begins in this folder. If that is the copy of another run, it is none from now on.
  static void begin_run_in(const std::string& run_dir);

 private:
  void require_owner() const;
  void copy_checkpoint(const std::string& name, CopyProgress& progress);
  void point(const std::string& name, const std::string& checkpoint) const;
  std::string here(const std::string& name) const { return run_dir_ + "/" + name; }
  std::string there(const std::string& name) const { return copy_dir_ + "/" + name; }

  std::string run_dir_, copy_dir_;
  std::set<std::string> copied_;  ///< checkpoints that need not be looked at again
  std::string owner_;  ///< what `copy_of` says: the run folder, its number, one of this object
};

}  // namespace hgt
