#include "submitted_training.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sys/wait.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/no_pipe_signal.h"
#include "hgtrain/launch/job.h"

#include "check_flags.h"
#include "options.h"
#include "train_plan.h"

namespace hgt {

void SubmittedTraining::add_options(Options& options) {
  options.add("CONFIG", config, "the config of the training").required();
  options.add("--nodes", nodes, "nodes of the job (default: 1)");
  options.add("--gpus", gpus, "GPUs of each node to train on");
  options.add("--num_workers", workers, "instead: workers on the CPUs of each node");
  options.add("--cpus", cpus, "CPUs of each node (default: one for each GPU or worker)");
  options.add("--time", time, "time limit of the job: 12:00:00, or 2-00 for two days");
  options.add("--run_dir", run_dir, "folder of the run (default: runs/NAME of the config)");
  options.add_flag("--dry_run", dry_run, "print the job, submit nothing");
}

std::optional<std::int64_t> SubmittedTraining::seconds() const {
  if (time.empty()) return std::nullopt;
  // M, M:S, H:M:S, D-H, D-H:M or D-H:M:S
  static const std::regex kForm(R"((?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?)");
  std::int64_t out = 0;
  if (std::smatch found; std::regex_match(time, found, kForm)) {
    const auto number = [&](std::size_t group) {
      return found[group].matched ? std::stoll(found[group]) : 0;
    };
    const bool begins_with_hours = found[1].matched || found[4].matched;
    out = number(1) * 86400 + (begins_with_hours ? number(2) * 3600 + number(3) * 60 + number(4)
                                                 : number(2) * 60 + number(3));
  }
  if (out == 0)
    throw Error(
        ErrorKind::kConfig, fmt::format("--time {} is not a time limit", time),
        "use hours, minutes and seconds (12:00:00), minutes (90), or days and hours (2-00)");
  return out;
}

void SubmittedTraining::check(const std::vector<std::string>& overrides, bool is_data_here) {
  if (gpus.has_value() == workers.has_value())
    throw Error(ErrorKind::kConfig, "a job needs either --gpus or --num_workers",
                "use --gpus 8 for eight GPUs of each node");
  check_range("--nodes", nodes, 1, 100'000);
  check_range(gpus ? "--gpus" : "--num_workers", per_node(), 1, kMaxWorkersOfHost);
  check_range("--cpus", cpus.value_or(1), 1, 100'000);
  seconds();
  if (config == "-")
    throw Error(ErrorKind::kConfig, "a job cannot read its config from standard input",
                "save the config in a file, and name the file as CONFIG");
  if (run_dir.empty()) run_dir = default_run_dir(config);
  TrainFlags flags;
  flags.config = config;
  flags.dry_run = true;
  flags.is_data_here = is_data_here;
  (gpus ? flags.num_gpus : flags.num_workers) = std::int64_t{nodes} * per_node();
  make_train_plan(flags, overrides);
}

std::vector<std::string> SubmittedTraining::arguments(
    const std::string& config_there, const std::vector<std::string>& overrides) const {
  std::vector<std::string> out{"--config", config_there, "--run_dir", run_dir, "--resume", "auto"};
  const std::string count = std::to_string(per_node());
  if (gpus)
    out.insert(out.end(), {"--num_gpus", count});
  else
    out.insert(out.end(), {"--device", "cpu", "--num_workers", count});
  for (std::size_t i = 0; i < overrides.size(); ++i)  // key, value, key, ...
    out.push_back(i % 2 == 0 ? "--" + overrides[i] : overrides[i]);
  return out;
}

std::string stem_of(const std::string& config) {
  return std::filesystem::path(config).stem();
}

bool is_installed(const std::string& program) {
  const char* const path = std::getenv("PATH");
  try {
    find_program(program, path ? path : "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

void pipe_to(const std::string& command, const std::string& text, const std::string& hint) {
  std::fflush(stdout);
  FILE* const program = ::popen(command.c_str(), "we");
  if (program == nullptr) throw Error(ErrorKind::kDevice, command + " cannot be started");
  const NoPipeSignal no_signal;  // the command may fail without reading the text
  std::fwrite(text.data(), 1, text.size(), program);
  const int status = ::pclose(program);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(ErrorKind::kConfig, command + " has failed; its own message is above", hint);
}

}  // namespace hgt
