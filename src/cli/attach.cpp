#include <csignal>
#include <cstdio>
#include <iostream>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job_client.h"

#include "commands.h"
#include "detached_run.h"
#include "options.h"
#include "run_status.h"

namespace hgt {
namespace {

/// Ends this process on Ctrl-C, even if it waits for a terminal that takes nothing.
void detach(int) {
  constexpr std::string_view kText = "\ndetached: the run continues\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  _exit(0);
}

class Attach final : public Command {
 public:
  std::string_view name() const override { return "attach"; }
  std::string_view summary() const override {
    return "show the console of a run that another shell started";
  }
  void add_options(Options& options) override { options.add("RUN", run_, kRunHelp); }

  int run(const std::vector<std::string>&) override {
    const std::string folder = run_folder_of(run_);
    if (const auto code = run_on_host_of(folder, "attach", {})) return *code;
    auto launcher = JobClient::connect(folder);
    if (!launcher)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("{} is not running here: {}", folder, outcome_line(run_status(folder))),
          fmt::format("hgtrain logs {} prints what its ranks have logged", shell_word(folder)));
    std::signal(SIGINT, detach);
    const bool is_whole = launcher->watch_console(
        [&, is_first = true](bool is_error, std::uint64_t left_out, std::string_view text) mutable {
          if (std::exchange(is_first, false)) tell("attached to {}; Ctrl-C detaches\n", folder);
          if (left_out > 0)
            tell("hgtrain: {} bytes are missing here: this terminal did not take them in time\n",
                 left_out);
          (is_error ? std::cerr : std::cout) << text << std::flush;
        });
    if (!is_whole) tell("hgtrain: the last lines may be missing here\n");
    launcher->wait_for_end();
    const nlohmann::json status = run_status(folder);
    tell("{}: {}\n", folder, outcome_line(status));
    return exit_code_of(status).value_or(static_cast<int>(ErrorKind::kPeer));
  }

 private:
  std::string run_;
};

}  // namespace

std::unique_ptr<Command> attach_command() {
  return std::make_unique<Attach>();
}

}  // namespace hgt
