#include "run_status.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/launch/job_client.h"
#include "hgtrain/report/human.h"
#include "hgtrain/report/run_file.h"

#include "detached_run.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";

// Fields of a status or of run.json, which may hold anything.

std::string text_at(const nlohmann::json& json, const char* key) {
  const auto field = json.find(key);
  return field != json.end() && field->is_string() ? field->get<std::string>() : "";
}

std::optional<double> number_at(const nlohmann::json& json, const char* key) {
  const auto field = json.find(key);
  return field != json.end() && field->is_number() ? std::optional(field->get<double>())
                                                   : std::nullopt;
}

/// A count as it is shown; "-" if there is none.
std::string count_at(const nlohmann::json& json, const char* key) {
  const std::optional<double> number = number_at(json, key);
  return number && std::abs(*number) < 1e15 ? fmt::format("{:.0f}", *number) : "-";
}

std::vector<nlohmann::json> objects_at(const nlohmann::json& json, const char* key) {
  std::vector<nlohmann::json> found;
  if (const auto list = json.find(key); list != json.end() && list->is_array())
    std::copy_if(list->begin(), list->end(), std::back_inserter(found),
                 [](const nlohmann::json& entry) { return entry.is_object(); });
  return found;
}

std::vector<std::string> texts_at(const nlohmann::json& json, const char* key) {
  std::vector<std::string> found;
  if (const auto list = json.find(key); list != json.end() && list->is_array())
    for (const nlohmann::json& entry : *list)
      if (entry.is_string()) found.push_back(entry);
  return found;
}

nlohmann::json object_at(const nlohmann::json& json, const char* key) {
  const auto field = json.find(key);
  return field != json.end() && field->is_object() ? *field : nlohmann::json::object();
}

/// When the run was started, as UTC in a form that sorts; nullopt if it is no run.
std::optional<std::string> start_of(const std::string& folder) {
  try {
    const std::optional<nlohmann::json> file = read_run_file(folder);
    const std::optional<DetachedRun> detached = read_detached_run(folder);
    if (!file && !detached) return std::nullopt;
    return std::max(text_at(file.value_or(nlohmann::json::object()), "started_at"),
                    detached ? detached->started_at : "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Of the folders in kRuns, and in those: a quickstart's run lies beside its data.
std::string newest_run() {
  std::string newest, start;
  const auto compare = [&](const std::string& folder) {
    const auto started = start_of(folder);
    if (!started || (!newest.empty() && *started <= start)) return;
    newest = folder;
    start = *started;
  };
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(kRuns, none)) {
    compare(entry.path());
    for (const auto& inner : fs::directory_iterator(entry.path(), none)) compare(inner.path());
  }
  return newest;
}

std::string step_line(const nlohmann::json& status) {
  if (!number_at(status, "step")) return "";
  std::string line = "step        " + count_at(status, "step");
  if (number_at(status, "total_steps")) line += "/" + count_at(status, "total_steps");
  if (const auto loss = number_at(status, "loss")) line += "  loss " + human_number(*loss, 4);
  if (const auto eta = number_at(status, "eta_s")) line += "  eta " + human_duration(*eta);
  return line + "\n";
}

std::string phase_of(const nlohmann::json& rank) {
  if (text_at(rank, "state") != "running") return text_at(rank, "state");
  std::string phase = text_at(rank, "phase");
  if (phase.empty()) return "running";
  if (const std::string action = text_at(rank, "action"); !action.empty()) phase += " " + action;
  if (const std::string group = text_at(rank, "waits_in"); !group.empty())
    phase += ", waits in " + group;
  return phase;
}

std::string rank_lines(const nlohmann::json& status) {
  const std::vector<nlohmann::json> ranks = objects_at(status, "ranks");
  if (ranks.empty()) return "";
  std::size_t host_width = 4;
  for (const nlohmann::json& rank : ranks)
    host_width = std::max(host_width, text_at(rank, "host").size());
  std::string text =
      fmt::format("\nrank  {:{}}      pid    step  heartbeat  phase\n", "host", host_width);
  for (const nlohmann::json& rank : ranks) {
    const std::optional<double> age = number_at(rank, "heartbeat_age_s");
    text += fmt::format("{:>4}  {:{}}  {:>7}  {:>6}  {:>9}  {}\n", count_at(rank, "rank"),
                        text_at(rank, "host"), host_width, count_at(rank, "pid"),
                        count_at(rank, "step"), age ? fmt::format("{:.1f} s ago", *age) : "-",
                        phase_of(rank));
  }
  return text;
}

}  // namespace

std::optional<nlohmann::json> read_run_file(const std::string& folder) {
  const std::string path = folder + "/run.json";
  if (!path_exists(path, ErrorKind::kConfig)) return std::nullopt;
  nlohmann::json file = try_parse_json<nlohmann::json>(read_file(path, kMaxRunFileBytes));
  if (!file.is_object())
    throw Error(ErrorKind::kData, path + " is damaged: it is not a JSON object");
  return file;
}

std::string run_folder_of(const std::string& run) {
  constexpr const char* kHint =
      "name the folder of a run: its run_dir, or the log_dir of `hgtrain launch`";
  if (run.empty()) {
    const std::string newest = newest_run();
    if (newest.empty()) throw Error(ErrorKind::kConfig, "there is no run below runs/", kHint);
    return newest;
  }
  if (!is_folder(run, ErrorKind::kConfig))
    throw Error(ErrorKind::kConfig, fmt::format("there is no folder {}", run), kHint);
  if (!path_exists(run + "/run.json", ErrorKind::kConfig) && !read_detached_run(run))
    throw Error(ErrorKind::kConfig,
                fmt::format("{} is not the folder of a run: it has no run.json", run), kHint);
  return run;
}

nlohmann::json ended_status(const nlohmann::json& file) {
  const nlohmann::json launcher = object_at(file, "launcher");
  std::string state = text_at(file, "verdict");
  if (state == "running") {
    const std::string host = text_at(launcher, "host");
    state = host.empty() || host == host_name() ? "killed" : "unknown";
  }
  if (state.empty()) state = "unknown";
  nlohmann::json status{{"state", state}};
  for (const char* key : {"reason", "exit_code", "restarts", "last_checkpoint", "ended_at"})
    if (file.contains(key)) status[key] = file[key];
  if (state != "killed" && state != "unknown")  // a launcher that was killed has not written it
    status["step"] = file.value("finished_steps", nlohmann::json());
  status["loss"] = object_at(file, "summary").value("last_loss", nlohmann::json());
  status["launcher"] = launcher;
  return status;
}

nlohmann::json run_status(const std::string& folder) {
  // Connect first, because the launcher writes how the run ended before it closes its socket.
  std::optional<JobClient> launcher = JobClient::connect(folder);
  const std::optional<nlohmann::json> answer = launcher ? launcher->status() : std::nullopt;
  const nlohmann::json file = read_run_file(folder).value_or(nlohmann::json::object());
  nlohmann::json status = answer ? *answer : ended_status(file);
  status["run"] = folder;
  if (!status.contains("started_at"))
    status["started_at"] = file.value("started_at", nlohmann::json());
  for (auto field = status.begin(); field != status.end();)
    field = field->is_null() ? status.erase(field) : std::next(field);
  return status;
}

std::vector<RunWorker> workers_of_run(const std::string& folder) {
  std::vector<RunWorker> workers;
  const nlohmann::json file = read_run_file(folder).value_or(nlohmann::json::object());
  for (const nlohmann::json& worker : objects_at(file, "workers"))
    if (const auto rank = worker.find("rank"); rank != worker.end() && rank->is_number_unsigned() &&
                                               rank->get<std::uint64_t>() < 1'000'000)
      workers.push_back({rank->get<int>(), text_at(worker, "host")});
  return workers;
}

bool is_running(const nlohmann::json& status) {
  const std::string state = text_at(status, "state");
  return state != "done" && state != "stopped" && state != "failed" && state != "killed" &&
         state != "unknown";
}

std::string launcher_host(const nlohmann::json& status) {
  return text_at(object_at(status, "launcher"), "host");
}

std::optional<int> exit_code_of(const nlohmann::json& status) {
  const std::optional<double> code = number_at(status, "exit_code");
  return code && *code >= 0 && *code < 256 ? std::optional(static_cast<int>(*code)) : std::nullopt;
}

std::string outcome_line(const nlohmann::json& status) {
  std::string line = text_at(status, "state");
  const std::string host = launcher_host(status);
  if (line == "killed") return "killed: its launcher ended without reporting how";
  if (line == "unknown" && host.empty()) return "unknown: its run.json says nothing of it";
  if (line == "unknown") return fmt::format("unknown: its launcher ran on {0}; ask on {0}", host);
  if (is_running(status))
    line += fmt::format(", by the launcher with pid {} on {}",
                        count_at(object_at(status, "launcher"), "pid"), host);
  if (number_at(status, "exit_code"))
    line += fmt::format(", exit code {}", count_at(status, "exit_code"));
  const std::string reason = text_at(status, "reason");
  return reason.empty() ? line : line + ": " + reason;
}

std::string status_text(const nlohmann::json& status) {
  std::string text =
      fmt::format("run         {}\nstate       {}\n", text_at(status, "run"), outcome_line(status));
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:11} {}\n", name, value);
  };
  line("started", text_at(status, "started_at"));
  line("ended", text_at(status, "ended_at"));
  text += step_line(status);
  line("waits for", fmt::format("{}", fmt::join(texts_at(status, "waits_for"), ", ")));
  line("checkpoint", text_at(status, "last_checkpoint"));
  if (number_at(status, "restarts").value_or(0) > 0) line("restarts", count_at(status, "restarts"));
  return text + rank_lines(status);
}

}  // namespace hgt
