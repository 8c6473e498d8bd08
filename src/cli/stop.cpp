#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job_client.h"

#include "commands.h"
#include "detached_run.h"
#include "options.h"
#include "run_status.h"

namespace hgt {
namespace {

class Stop final : public Command {
 public:
  std::string_view name() const override { return "stop"; }
  std::string_view summary() const override { return "ask a run to save and stop"; }
  void add_options(Options& options) override {
    options.add("RUN", run_, kRunHelp);
    options.add_flag("--now", now_, "kill its ranks; save nothing");
  }

  int run(const std::vector<std::string>&) override {
    const std::string folder = run_folder_of(run_);
    std::vector<std::string> flags;
    if (now_) flags.emplace_back("--now");
    if (const auto code = run_on_host_of(folder, "stop", flags)) return *code;
    std::string stopped;  // the launcher
    if (auto launcher = JobClient::connect(folder)) {
      if (const auto status = launcher->status()) stopped = status->at("launcher").dump();
      launcher->stop(now_);
      tell("{}: {}, waiting for its end\n", folder,
           now_ ? "asked to stop at once" : "asked to stop");
      launcher->wait_for_end();
    }
    const nlohmann::json status = run_status(folder);
    if (status.at("state") == "unknown")
      throw Error(ErrorKind::kPeer,
                  fmt::format("{} cannot be stopped from here: {}", folder, outcome_line(status)));
    const bool has_begun = stopped.empty() || status.at("launcher").dump() == stopped;
    say("{}: {}\n", folder,
        has_begun ? outcome_line(status)
                  : "stopped before it began; run.json is still that of an earlier start");
    return 0;
  }

 private:
  std::string run_;
  bool now_ = false;
};

}  // namespace

std::unique_ptr<Command> stop_command() {
  return std::make_unique<Stop>();
}

}  // namespace hgt
