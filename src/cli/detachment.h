#pragma once

#include <string>

namespace hgt {

/// A job that continues without the shell that started it (--detach). Until the job has started,
/// its output and its exit code are the command's, and signals reach it.
class Detachment {
 public:
  /// Forks, so no other thread may hold a lock. Returns in the child, which leads a session of its
  /// own. The parent waits until the child calls start(), then exits with 0; if the child ends
  /// before, with its exit code. Without `wanted` it does nothing.
  explicit Detachment(bool wanted);
  Detachment(const Detachment&) = delete;
  Detachment& operator=(const Detachment&) = delete;
  ~Detachment();

  bool is_wanted() const { return started_fd_ >= 0; }
  /// Call it once the job has started. Prints how to reach the run in `folder`, and lets the parent
  /// exit. From now on, output is appended to `file`, or lost if that cannot be opened. Later calls
  /// do nothing.
  void start(const std::string& folder, const std::string& file);
  /// The job is about to end: the parent waits for that, and start() does nothing.
  void stay() { is_decided_ = true; }

 private:
  int started_fd_ = -1;      // the parent waits for a byte
  bool is_decided_ = false;  // whether it starts
};

/// Error(kConfig) if `detach` is set for a dry run, or for a job whose nodes were started one by
/// one, for example by a scheduler.
void check_detach_flag(bool detach, bool dry_run, bool is_met_by_nodes);

}  // namespace hgt
