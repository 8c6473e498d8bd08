#include "launched_run.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/launch/remote_command.h"
#include "hgtrain/report/run_summary.h"

#include "detached_run.h"
#include "run_folder.h"
#include "shell_words.h"

namespace hgt {
namespace {

std::vector<RunFile::Worker> workers_of(const std::vector<JobHost>& hosts) {
  std::vector<RunFile::Worker> workers;
  for (const JobHost& host : hosts)
    for (int i = 0; i < host.workers; ++i)
      workers.push_back({.rank = std::ssize(workers), .host = host.name});
  return workers;
}

}  // namespace

std::vector<std::string> own_command_line() {
  std::vector<std::string> words;
  if (const RemoteCommand* const received = received_command()) {
    words = received->words;
    words.insert(words.begin(), "hgtrain");
    return words;
  }
  const std::string text = read_file("/proc/self/cmdline", 16 << 20);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string typed_command_value(const std::vector<std::string>& words) {
  using nlohmann::json;
  return json(words).dump(-1, ' ', false, json::error_handler_t::replace);
}

const std::vector<std::string>& typed_command_line() {
  static const std::vector<std::string> words = [] {
    const char* const value = std::getenv(kTypedCommand);
    if (value == nullptr) return own_command_line();
    const std::string text = value;
    unsetenv(kTypedCommand);
    try {
      return nlohmann::json::parse(text).get<std::vector<std::string>>();
    } catch (const nlohmann::json::exception&) {  // it is not hgtrain's
      return own_command_line();
    }
  }();
  return words;
}

RunFile new_run_file() {
  RunFile run;
  run.started_at = utc_now();
  run.versions = {{"hgtrain", HGT_VERSION}};
  run.host = host_name();
  run.pid = getpid();
  if (const RemoteCommand* const received = received_command()) run.detach_id = received->detach_id;
  run.command = without_values_of_env(typed_command_line());
  return run;
}

void conclude(RunFile& run, const Verdict& verdict) {
  using Outcome = Verdict::Outcome;
  run.verdict = verdict.outcome == Outcome::kDone      ? "done"
                : verdict.outcome == Outcome::kStopped ? "stopped"
                                                       : "failed";
  run.exit_code = verdict.exit_code;
  run.restarts = verdict.restarts;
  run.ended_at = utc_now();
  if (verdict.outcome == Outcome::kFailed) {
    run.reason = verdict.message.empty() ? fmt::format("{} {}", verdict.culprit(), verdict.reason)
                                         : verdict.message;
    run.failure =
        RunFile::Failure{.rank = verdict.rank,
                         .message = verdict.message.empty() ? verdict.reason : verdict.message,
                         .hint = verdict.hint,
                         .context = verdict.context,
                         .log = verdict.log_path};
  } else if (verdict.outcome == Outcome::kStopped && run.reason.empty()) {
    run.reason = verdict.reason;
  }
}

void conclude(RunFile& run, const Error& why) {
  run.verdict = "failed";
  run.exit_code = why.exit_code();
  run.reason = why.message();
  run.ended_at = utc_now();
  run.failure = RunFile::Failure{.rank = -1,
                                 .message = why.message(),
                                 .hint = why.hint(),
                                 .context = why.context(),
                                 .log = ""};
}

std::string unreachable(const JobSocket& socket) {
  return socket.problem().empty()
             ? ""
             : "hgtrain status, attach and stop cannot reach this run: " + socket.problem();
}

ProgramRun::ProgramRun(const JobSpec& spec, bool is_detached,
                       std::function<void(const std::string& text)> notice)
    : folder_(spec.log_dir), notice_(std::move(notice)), run_(new_run_file()) {
  if (folder_.empty()) return;
  refuse_run_elsewhere(folder_, "--log_dir");
  try {
    make_folders(folder_);
    lock_ = is_detached ? take_lock(folder_, "--log_dir") : lock_if_free(folder_, "--log_dir");
  } catch (const Error& e) {
    if (is_detached) throw;
    notice_("hgtrain status, attach and stop cannot reach this run: " + e.message());
    return;
  }
  if (path_exists(folder_ + "/resolved.json"))
    throw Error(ErrorKind::kConfig,
                fmt::format("--log_dir {} is the folder of a training run", folder_),
                "name another folder, which may lie in it");
  if (!lock_) {
    notice_(fmt::format(
        "another job writes its logs to {} too: hgtrain status, attach and stop reach that one; "
        "--log_dir {} would keep this one apart",
        folder_, shell_word(free_path(folder_))));
    return;
  }
  forget_run_elsewhere(folder_);
  // Their number may not be known before the hosts have answered.
  run_.workers = workers_of(
      spec.hosts.empty() ? std::vector{JobHost{.name = host_name(), .workers = spec.num_workers}}
                         : spec.hosts);
  socket_.emplace(folder_);
  if (const std::string text = unreachable(*socket_); !text.empty()) notice_(text);
  write();
}

void ProgramRun::set_hosts(const std::vector<JobHost>& hosts) {
  run_.workers = workers_of(hosts);
  write();
}

void ProgramRun::write() {
  if (!lock_) return;
  try {
    write_run_file(folder_, run_, RunSummary());
  } catch (const Error& e) {
    notice_(e.message());
  }
}

}  // namespace hgt
