#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/host_choice.h"
#include "hgtrain/machine/diagnosis.h"
#include "hgtrain/machine/driver_limit.h"
#include "hgtrain/machine/library_search.h"

#include "commands.h"
#include "doctor_hosts.h"
#include "doctor_report.h"
#include "host_flags.h"
#include "options.h"
#include "worker_program.h"

namespace hgt {
namespace {

/// The worker's answer is its last line; libraries may have printed before it.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

CudaModuleState ask_worker() {
  CudaModuleState state;
  try {
    const auto [status, out] = run_shell(shell_line({worker_program(), "probe"}) + " 2>&1");
    const auto said = try_parse_json<nlohmann::json>(last_line(out));
    if (status != 0 || !said.is_object()) {
      state.worker_problem = out.empty() ? fmt::format("exit status {}", status) : last_line(out);
      return state;
    }
    state.opened = said.contains("build");
    state.build = said.value("build", "");
    state.runtime_version = said.value("runtime_version", 0);
    state.status = said.value("status", 0);
    state.status_text = said.value("status_text", "");
    state.problem = said.value("problem", "");
    state.hint = said.value("hint", "");
  } catch (const Error& e) {
    state.worker_problem = e.message();
  }
  return state;
}

class Doctor final : public Command {
 public:
  std::string_view name() const override { return "doctor"; }
  std::string_view summary() const override {
    return "show what this machine has, and what keeps its GPUs from being used";
  }
  void add_options(Options& options) override {
    options.add_flag("--json", json_, "print one JSON object instead");
    add_host_choice(options, hosts_, "check these hosts instead");
    options.add_flag("--links", links_, "measure the TCP connection between each two hosts, too");
    options.add("--ssh_port", hosts_.ssh_port, "port of the hosts' ssh servers (default: ssh's)");
  }

  int run(const std::vector<std::string>&) override {
    namespace fs = std::filesystem;
    const std::vector<JobHost> hosts = hosts_of(hosts_);
    if (links_ && hosts.size() < 2)
      throw Error(ErrorKind::kConfig, "--links needs several hosts", "use --hosts a,b --links");
    if (!hosts.empty() && !is_this_machine(hosts)) return look_at_hosts(hosts);
    const fs::path program_folder = own_program().parent_path();
    const Machine machine = within_driver_limit([program_folder] {
      return look_at_machine(cuda_library_folders(program_folder), ask_worker());
    });
    const Diagnosis diagnosis = diagnose(machine);
    if (json_)
      say("{}\n", doctor_json(machine, diagnosis).dump(2));
    else
      say("{}", doctor_text(machine, diagnosis));
    return diagnosis.problems.empty() ? 0 : static_cast<int>(ErrorKind::kDevice);
  }

 private:
  int look_at_hosts(const std::vector<JobHost>& hosts) const {
    const SurveyResult found =
        survey_hosts(hosts, links_, [](const std::string& text) { tell("hgtrain: {}\n", text); });
    const HostsDiagnosis diagnosis = diagnose_hosts(found);
    if (json_)
      say("{}\n", hosts_json(found, diagnosis).dump(2));
    else
      say("{}", hosts_text(found, diagnosis));
    return diagnosis.problems.empty() ? 0 : static_cast<int>(ErrorKind::kDevice);
  }

  HostFlags hosts_;
  bool links_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> doctor_command() {
  return std::make_unique<Doctor>();
}

}  // namespace hgt
