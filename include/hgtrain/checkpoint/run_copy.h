#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

namespace hgt {

/// Grows as long as an update goes on.
using CopyProgress = std::atomic<std::uint64_t>;

/// A copy of a run folder, on a disk that survives if that of the run folder is lost: its configs,
/// metrics.jsonl, and the checkpoints of the branch that the run is on. It is a run folder itself,
/// in which the run can be resumed. Nothing else may write there meanwhile.
class RunCopy {
 public:
  /// Error(kConfig) if `copy_dir` cannot be made, is neither empty nor the copy of a run, or has
  /// newer checkpoints than those of this run: then another run is copied, or was resumed, there.
  /// From now on the folder is this object's, and update() of an earlier one fails.
  RunCopy(std::string run_dir, std::string copy_dir);

  /// Copies the checkpoints that are missing, newest first, and removes those that the run did not
  /// have any more when the update began. A checkpoint is either whole there or not there, as in
  /// the run folder. Meanwhile the run may save and remove checkpoints. Error(kData) if a file
  /// cannot be read or written; the next call continues.
  void update(CopyProgress& progress);

  const std::string& folder() const { return copy_dir_; }

 private:
  void copy_checkpoint(const std::string& name, CopyProgress& progress);
  void point(const std::string& name, const std::string& checkpoint) const;
  bool has_same(const std::string& name) const;
  bool was_left(const std::string& name) const;
  std::string here(const std::string& name) const { return run_dir_ + "/" + name; }
  std::string there(const std::string& name) const { return copy_dir_ + "/" + name; }

  std::string run_dir_, copy_dir_;
  std::set<std::string> copied_;  ///< checkpoints that need not be looked at again
  std::string owner_;  ///< what the file `copy_of` says: the run folder, and a random number
};

}  // namespace hgt
