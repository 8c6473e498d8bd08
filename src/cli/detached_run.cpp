#include "detached_run.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job_client.h"
#include "hgtrain/launch/remote_command.h"
#include "hgtrain/report/run_file.h"

#include "run_status.h"

namespace hgt {
namespace {

constexpr std::int64_t kMaxRecordBytes = 1 << 16;

std::string file_in(const std::string& run) {
  return run + "/" + kDetachedFile;
}

/// What run.json says of the state of this run; "" if it is of another one, such as an earlier run
/// in this folder.
std::string state_here(const std::string& run, const DetachedRun& there) {
  const nlohmann::json file = read_run_file(run).value_or(nlohmann::json::object());
  const auto id = file.find("detach_id");
  return id != file.end() && *id == there.id ? ended_status(file).at("state") : "";
}

/// The run in the folder, if --detach has started it on a host, which knows more of it.
std::optional<DetachedRun> run_elsewhere(const std::string& run) {
  if (received_command()) return std::nullopt;
  std::optional<DetachedRun> there = read_detached_run(run);
  if (!there || is_same_host(there->host.name, host_name()) || JobClient::connect(run))
    return std::nullopt;
  const std::string state = state_here(run, *there);
  return state.empty() || state == "unknown" ? there : std::nullopt;
}

}  // namespace

void write_detached_run(const std::string& run, const JobHost& host, const std::string& id) {
  const nlohmann::ordered_json file{{"host", host.name},
                                    {"user", host.user},
                                    {"ssh_port", host.ssh_port},
                                    {"folder", std::filesystem::current_path().string()},
                                    {"run", run},
                                    {"from", host_name()},
                                    {"started_at", utc_now()},
                                    {"detach_id", id}};
  make_folders(run);
  write_file_atomically(file_in(run), file.dump(2) + "\n");
}

std::optional<DetachedRun> read_detached_run(const std::string& run) {
  const std::string path = file_in(run);
  if (!path_exists(path)) return std::nullopt;
  const auto file = try_parse_json<nlohmann::json>(read_file(path, kMaxRecordBytes));
  try {
    return DetachedRun{.host = {.name = file.at("host"),
                                .user = file.at("user"),
                                .ssh_port = static_cast<int>(json_integer(file.at("ssh_port")))},
                       .folder = file.at("folder"),
                       .run = file.at("run"),
                       .from = file.at("from"),
                       .started_at = file.at("started_at"),
                       .id = file.at("detach_id")};
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::kData, path + " is damaged",
                "remove it; the run is on the host on which --detach has started it");
  }
}

void refuse_run_elsewhere(const std::string& run, const std::string& flag,
                          const std::string& host) {
  if (const auto there = run_elsewhere(run); there && !is_same_host(there->host.name, host))
    throw Error(
        ErrorKind::kConfig,
        fmt::format("{} has a run that --detach has started on host {}", run, there->host.name),
        fmt::format("`hgtrain status {0}` shows it; to go on with it, type its command with its "
                    "hosts and --detach; to start another one: {1} {2}, or remove {3} if that run "
                    "has ended",
                    shell_word(run), flag, shell_word(free_path(run)), shell_word(file_in(run))));
}

void forget_run_elsewhere(const std::string& run) {
  std::error_code ignored;  // there is none, or the folder cannot be written
  if (!received_command()) std::filesystem::remove(file_in(run), ignored);
}

std::optional<int> run_on_host_of(const std::string& run, const std::string& command,
                                  const std::vector<std::string>& flags) {
  const std::optional<DetachedRun> there = run_elsewhere(run);
  if (!there) return std::nullopt;
  RemoteCommand remote;
  remote.folder = there->folder;
  remote.words = {command, there->run};
  remote.words.insert(remote.words.end(), flags.begin(), flags.end());
  try {
    return run_remotely(std::move(remote), there->host,
                        [](const std::string& text) { tell("hgtrain: {}\n", text); });
  } catch (Error& e) {
    const std::string from =
        there->from == host_name() ? "" : ", in a command on " + there->from + ",";
    e.in(fmt::format("{}, a run that --detach{} has started on host {}", run, from,
                     there->host.name));
    const bool only_reads = command == "status" || command == "logs";
    if (!only_reads || state_here(run, *there).empty()) throw;
    tell("hgtrain: {}\nhgtrain: so only the files in {} are read here, as they are now\n", e.text(),
         run);
    return std::nullopt;
  }
}

}  // namespace hgt
