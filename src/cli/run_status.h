#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The help of the argument RUN.
inline constexpr const char* kRunHelp = "folder of the run (default: the newest below runs/)";

/// The folder of the run that the user means: `run` itself or, if that is "", the run below runs/
/// that was started last. Error(kConfig) if there is no run.
std::string run_folder_of(const std::string& run);

/// The status of a run: its run.json, and the launcher's answer if the launcher runs.
/// docs/launch.md lists the fields. "state" is the launcher's, or how the run ended: done, stopped,
/// failed, killed (its launcher is gone), or unknown (its launcher runs on another machine).
/// Error(kData) if run.json is damaged, Error(kPeer) if the launcher does not answer.
nlohmann::json run_status(const std::string& folder);

/// run.json of the run in `folder`; nullopt if there is none. Error(kData) if it is damaged.
std::optional<nlohmann::json> read_run_file(const std::string& folder);

/// A rank, as run.json lists it.
struct RunWorker {
  int rank = 0;
  std::string host;
};
/// The ranks that run.json of the run in `folder` lists. Error(kData) if it is damaged.
std::vector<RunWorker> workers_of_run(const std::string& folder);

/// The status of a run that no launcher answers for; `file` is its run.json, or any object.
nlohmann::json ended_status(const nlohmann::json& file);

/// Whether the launcher of the run is there.
bool is_running(const nlohmann::json& status);

/// The host of the run's launcher; "" if `status` does not say it.
std::string launcher_host(const nlohmann::json& status);

/// The exit code of a run that has ended, if it is known.
std::optional<int> exit_code_of(const nlohmann::json& status);

/// One line that says that the run is running, or how it ended.
std::string outcome_line(const nlohmann::json& status);

/// The same status as a text for people. `status` may hold anything.
std::string status_text(const nlohmann::json& status);

}  // namespace hgt
