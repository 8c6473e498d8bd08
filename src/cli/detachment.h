#pragma once

#include <string>

namespace hgt {

/// A job that continues without the shell that started it (--detach). Until the job has started,
/// its output and its exit code are the command's, and signals reach it.
class Detachment {
 public:
  /// Forks, so no thread may be there yet, and no lock may be held. Returns in the child, which
  /// leads a session of its own. The parent waits until that has started, then exits with 0, or
  /// with the child's exit code if it ends before. Without `wanted` it does nothing.
  explicit Detachment(bool wanted);
  Detachment(const Detachment&) = delete;
  Detachment& operator=(const Detachment&) = delete;
  ~Detachment();

  bool is_wanted() const { return started_fd_ >= 0; }
  /// The job has started: tells the user how to reach the run in `folder`, and lets the shell go
  /// on. From now on, output is added to `file`, or lost if that cannot be opened. Later calls do
  /// nothing.
  void start(const std::string& folder, const std::string& file);

 private:
  int started_fd_ = -1;  // the parent waits for a byte
  bool has_started_ = false;
};

/// Error(kConfig) if a job that other nodes meet, as under a scheduler, is to be detached.
void require_own_start(bool detach, bool is_met_by_nodes);

}  // namespace hgt
