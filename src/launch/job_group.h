#pragma once

#include <string>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// A control group (version 2) below this process's own for everything that the job starts, if this
/// process may make one. A keeper, which is not a child of this process, waits until this process
/// ends, in whatever way, and then kills what is left in the group. This ends the workers' children
/// even if this process and all guards are killed at once.
class JobGroup {
 public:
  /// `root` replaces / in tests. Make the group before this process becomes a subreaper, or the
  /// keeper would become its child.
  explicit JobGroup(const std::string& root = "");
  /// Removes the group. If processes are left in it, the keeper kills them first.
  ~JobGroup();
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  /// A process that writes "0" to this descriptor joins the group; -1 if there is no group.
  int join_fd() const { return join_.get(); }
  /// "" if there is no group.
  const std::string& path() const { return path_; }

 private:
  void start_keeper();
  std::string path_;
  OwnedFd join_;
  OwnedFd lifeline_;  ///< the keeper waits for its end
};

}  // namespace hgt
