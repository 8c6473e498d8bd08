#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// The folder of the run that the user means: RUN as it is typed or, if that is "", the run below
/// runs/ that was started last. Error(kConfig) if there is no run.
std::string run_folder_of(const std::string& run);

/// What is known of a run: run.json, and what its launcher says if it runs. The fields are those
/// of docs/launch.md. "state" is that of the launcher, or else how the run ended: done, stopped,
/// failed, killed (its launcher is gone), or unknown (its launcher runs on another machine).
/// Error(kData) if run.json is damaged, Error(kPeer) if the launcher does not answer.
nlohmann::json run_status(const std::string& folder);

/// A rank, as run.json lists it.
struct RunWorker {
  int rank = 0;
  std::string host;
};
/// The ranks of the run in `folder` that run.json knows. Error(kData) if it is damaged.
std::vector<RunWorker> workers_of_run(const std::string& folder);

/// The status of a run that no launcher answers for; `file` is its run.json, or any object.
nlohmann::json ended_status(const nlohmann::json& file);

/// The launcher of the run is there.
bool is_running(const nlohmann::json& status);

/// The exit code of a run that has ended, if it is known.
std::optional<int> exit_code_of(const nlohmann::json& status);

/// How the run ended, or that it runs, as one line.
std::string outcome_line(const nlohmann::json& status);

/// The same status as a text for people. `status` may hold anything.
std::string status_text(const nlohmann::json& status);

}  // namespace hgt
