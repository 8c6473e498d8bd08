#pragma once

#include <string>

#include "owned_fd.h"

namespace hgt {

/// A control group (version 2) below this process's own for all that the job starts, if this
/// process may make one. A keeper, which is no child of this process, waits for its end: however it
/// comes, the keeper then kills what is left in the group. That is what ends the workers' children
/// if this process and all guards are killed at once.
class JobGroup {
 public:
  /// `root` stands in for / in tests. Make it before this process is a subreaper: the keeper would
  /// become its child.
  explicit JobGroup(const std::string& root = "");
  /// Removes the group; if there is something left in it, the keeper kills that first.
  ~JobGroup();
  JobGroup(const JobGroup&) = delete;
  JobGroup& operator=(const JobGroup&) = delete;

  /// A process that writes "0" there joins the group; -1 if there is none.
  int join_fd() const { return join_.get(); }
  /// "" if there is none.
  const std::string& path() const { return path_; }

 private:
  void start_keeper();
  std::string path_;
  OwnedFd join_;
  OwnedFd lifeline_;  ///< the keeper reads its end
};

}  // namespace hgt
