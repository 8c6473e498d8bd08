#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job_client.h"
#include "hgtrain/launch/rank_set.h"

#include "check_flags.h"
#include "commands.h"
#include "detached_run.h"
#include "log_file.h"
#include "options.h"
#include "run_status.h"

namespace hgt {
namespace {

constexpr int kPollMs = 200;

/// 3 of "rank_3.log".
std::optional<int> rank_of(std::string_view name) {
  constexpr std::string_view kBegin = "rank_", kEnd = ".log";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(rank)
                                                                  : std::nullopt;
}

class Logs final : public Command {
 public:
  std::string_view name() const override { return "logs"; }
  std::string_view summary() const override { return "print what the ranks of a run have logged"; }
  void add_options(Options& options) override {
    options.add("RUN", run_, kRunHelp);
    options.add("--rank", ranks_, "whose logs: all (default), or 0,2-5");
    options.add("-n,--lines", lines_, "only the last N lines of each log");
    options.add_flag("-f,--follow", follow_,
                     "print what is logged from now on, until the run ends");
  }

  int run(const std::vector<std::string>&) override {
    if (lines_) check_range("--lines", *lines_, 0, std::int64_t{1} << 40);
    chosen_ = RankSet::parse(ranks_);
    const std::string run = run_folder_of(run_);
    if (const auto code = run_on_host_of(run, "logs", flags())) return *code;
    folder_ = is_folder(run + "/logs") ? run + "/logs" : run;
    auto launcher = JobClient::connect(run);
    look_for_logs();
    report_missing(run);
    for (auto& [rank, log] : logs_) {
      if (lines_) log.skip_to_last(*lines_);
      log.print(/*to_the_end=*/!follow_ || !launcher);
    }
    if (follow_ && launcher) follow(*launcher);
    return 0;
  }

 private:
  std::vector<std::string> flags() const {
    std::vector<std::string> out{"--rank", ranks_};
    if (lines_) out.insert(out.end(), {"--lines", std::to_string(*lines_)});
    if (follow_) out.emplace_back("--follow");
    return out;
  }

  void look_for_logs() {
    std::map<int, std::string> paths;
    for (const std::string& name : list_folder(folder_))
      if (const auto rank = rank_of(name); rank && chosen_.has(*rank))
        paths[*rank] = folder_ + "/" + name;
    with_prefixes_ |= paths.size() > 1;
    for (const auto& [rank, path] : paths)
      if (!logs_.contains(rank))
        logs_.emplace(rank, LogFile(path, with_prefixes_ ? fmt::format("[r{}] ", rank) : ""));
  }

  /// Names the ranks without a log here: a host that does not share the folder has their logs in a
  /// folder with the same path.
  void report_missing(const std::string& run) const {
    std::map<std::string, std::vector<int>> missing;  // ranks, by their host
    const int last = chosen_.largest();
    bool has_last = logs_.contains(last);
    for (const RunWorker& worker : workers_of_run(run)) {
      has_last |= worker.rank == last;
      if (chosen_.has(worker.rank) && !logs_.contains(worker.rank))
        missing[worker.host].push_back(worker.rank);
    }
    for (const auto& [host, ranks] : missing) {
      RankSet set;
      for (const int rank : ranks) set.add(rank);
      // One piece: over ssh, a line of a log may come between two.
      tell("hgtrain: {} has no log of {} {} here, which {} on {}{}\n", folder_,
           ranks.size() == 1 ? "rank" : "ranks", set.text(), ranks.size() == 1 ? "runs" : "run",
           host, host == host_name() ? "" : "; there: " + shell_line(way_to_read(host, ranks)));
    }
    if (last >= 0 && !has_last)
      throw Error(ErrorKind::kConfig,
                  fmt::format("{} has no log of rank {}", folder_,
                              logs_.empty() && missing.empty() ? ranks_ : std::to_string(last)),
                  fmt::format("hgtrain status {} lists the ranks of the run", shell_word(run)));
  }

  std::vector<std::string> way_to_read(const std::string& host,
                                       const std::vector<int>& ranks) const {
    const std::string there = std::filesystem::absolute(folder_).lexically_normal();
    std::vector<std::string> read{"tail", "-n", lines_ ? std::to_string(*lines_) : "+1"};
    if (follow_) read.emplace_back("-f");
    for (const int rank : ranks) read.push_back(fmt::format("rank_{}.log", rank));
    return {"ssh", host, fmt::format("cd {} && {}", shell_word(there), shell_line(read))};
  }

  void follow(JobClient& launcher) {
    for (bool has_ended = false; !has_ended;) {
      std::fflush(stdout);
      has_ended = launcher.wait_for_end(kPollMs);
      look_for_logs();
      for (auto& [rank, log] : logs_) log.print(/*to_the_end=*/has_ended);
    }
  }

  RankSet chosen_;
  std::string folder_;
  std::string run_;
  std::string ranks_ = "all";
  std::optional<std::int64_t> lines_;
  bool follow_ = false;
  bool with_prefixes_ = false;
  std::map<int, LogFile> logs_;
};

}  // namespace

std::unique_ptr<Command> logs_command() {
  return std::make_unique<Logs>();
}

}  // namespace hgt
