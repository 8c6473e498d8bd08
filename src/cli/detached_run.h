#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hgtrain/launch/hosts.h"

namespace hgt {

/// The file in a run's folder that says on which host its launcher is, if that was started from
/// this machine with --detach.
inline constexpr const char* kDetachedFile = "detached.json";

struct DetachedRun {
  JobHost host;            ///< its name, user and port
  std::string folder;      ///< in which the launcher works
  std::string run;         ///< the run's folder, seen from `folder`
  std::string from;        ///< the machine that started it: host_name()
  std::string started_at;  ///< utc_now()
  std::string id;          ///< RunFile::detach_id
};

/// Writes RUN/detached.json for a job that this machine has just started on `host`, in a folder of
/// this one's path. Makes the folder if it is not here. Error(kData) if it cannot be written.
void write_detached_run(const std::string& run, const JobHost& host, const std::string& id);
/// nullopt if there is no such file. Error(kData) if it is damaged.
std::optional<DetachedRun> read_detached_run(const std::string& run);

/// Runs `hgtrain COMMAND RUN FLAGS` by ssh on the host of the run's launcher, if that was started
/// with --detach from a machine that sees the folder, and returns its exit code. nullopt if this
/// machine knows as much, because it is that host, a launcher listens in the folder, or run.json is
/// of this run and says how it ended. If the host cannot be used: Error(kDevice), or, if COMMAND
/// only reads and run.json is of this run, a message and nullopt.
std::optional<int> run_on_host_of(const std::string& run, const std::string& command,
                                  const std::vector<std::string>& flags);

/// Error(kConfig) if a job that starts in the folder, with its launcher on `host` ("": here), would
/// hide such a run on another host from this machine's commands. `flag` names the folder.
void refuse_run_elsewhere(const std::string& run, const std::string& flag,
                          const std::string& host = "");
/// A job that was typed here has begun in the folder, so the run there that --detach had started is
/// an earlier one. Nothing happens if --detach has started this one.
void forget_run_elsewhere(const std::string& run);

}  // namespace hgt
