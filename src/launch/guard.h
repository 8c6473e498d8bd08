#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "hgtrain/base/owned_fd.h"

namespace hgt {

/// The descriptor of a worker's control channel.
inline constexpr int kControlFd = 3;

/// The time from SIGKILL to the workers until the guards themselves are killed.
inline constexpr std::chrono::seconds kGuardLimit{5};

/// What a guard reports about its worker, once.
struct WorkerEnd {
  int wait_status = 0;  ///< as wait(2) gives it
  std::int64_t max_rss_kib = 0;
  std::int64_t at_ns = 0;     ///< now_ns() when it was noticed
  bool by_lease_end = false;  ///< the guard has killed it, because the lease was over
};

/// A worker and the guard above it, with this process's ends of their streams (all non-blocking).
struct GuardedWorker {
  pid_t guard = 0;
  pid_t worker = 0;
  OwnedFd lifeline;  ///< SOCK_SEQPACKET: signals (int) to the guard, one WorkerEnd from it, then
                     ///< its end
  OwnedFd control;   ///< stream socket
  OwnedFd output;    ///< the worker's stdout
  OwnedFd errors;    ///< the worker's stderr
};

/// Starts `path` with `argv` and `env` ("NAME=value") in a session of its own, under a guard.
///
/// With a lease, the guard also kills everything if nothing comes over `lifeline` for that long,
/// because this process has then been stopped, and its coordinator has given it up. Signal 0 renews
/// the lease. If it `kills_parent`, it also kills this process, 5 s later.
///
/// Guard and worker join the control group of `group_fd` (JobGroup), if there is one.
///
/// The guard is a fork of this process that calls only async-signal-safe functions, so it needs no
/// program file and is safe with other threads. Its command line is only its own name, so that
/// `pkill -f` with the command line of this process does not end it. It has a session of its own
/// too, ignores every signal it can, and is the subreaper of all that the worker starts. If the
/// worker ends, if `lifeline` is closed, or if SIGKILL is sent over it, the guard kills all its
/// descendants until none is left, and ends. A signal sent over `lifeline` goes to the worker's
/// process group. The worker itself dies with its guard (PR_SET_PDEATHSIG), and a stopped guard is
/// continued when its parent dies. The calling thread must outlive both: it is their parent.
///
/// Error(kConfig) if the program cannot be executed, Error(kDevice) if the system has no process or
/// descriptor left.
GuardedWorker spawn_guarded(int rank, const std::string& path, const std::vector<std::string>& argv,
                            const std::vector<std::string>& env, int group_fd = -1,
                            std::chrono::milliseconds lease = {}, bool kills_parent = false);

}  // namespace hgt
