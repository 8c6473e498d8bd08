#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"

#include "commands.h"
#include "launched_run.h"
#include "options.h"
#include "shell_words.h"
#include "submitted_training.h"

namespace hgt {
namespace {

constexpr int kMinSeconds = 300;  // of the time limit
// A job that loses a host goes to the queue again, unless it has done so this often and has lost
// the host this soon.
constexpr int kMaxRequeues = 10, kSoonSeconds = 3600;

/// Whether #SBATCH lines and the name of a job's output take the text literally.
bool is_name(const std::string& text) {
  return text.find_first_of(" \t\v\f\r\n'\"\\#%") == std::string::npos;
}

/// Whether sbatch reads the value to its end.
bool is_one_word(const std::string& value) {
  char quote = 0;
  for (const char c : value) {
    if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    else if (quote == 0 && std::string_view(" #\\").find(c) != std::string_view::npos)
      return false;
  }
  return quote == 0;
}

/// An option of sbatch, which may be typed with its dashes or without. Error(kConfig) if it is
/// none, or if a job relies on what the script says of it. sbatch takes the beginning of a name for
/// the name.
std::string sbatch_option(const std::string& typed) {
  constexpr std::string_view kOwn[] = {
      "nodes",         "ntasks",        "ntasks-per-node", "ntasks-per-gpu",  "tasks-per-node",
      "gpus",          "gpus-per-node", "gpus-per-task",   "gpus-per-socket", "gres",
      "cpus-per-task", "time",          "partition",       "account",         "output",
      "open-mode",     "requeue",       "no-requeue",      "signal",          "job-name",
      "array",         "wrap"};
  const std::string option = typed.starts_with("--") ? typed.substr(2) : typed;
  const std::string name = option.substr(0, option.find('='));
  const bool is_option = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!is_option || name.starts_with('-') ||
      std::ranges::any_of(option, [](unsigned char c) { return c < ' ' || c == 127; }))
    throw Error(ErrorKind::kConfig, fmt::format("--sbatch {}: this is no option of sbatch", typed),
                "write NAME or NAME=VALUE: --sbatch qos=long --sbatch exclusive");
  const auto own =
      std::ranges::find_if(kOwn, [&](std::string_view own) { return own.starts_with(name); });
  if (own != std::end(kOwn))
    throw Error(ErrorKind::kConfig,
                fmt::format("--sbatch {}: the job relies on --{} as hgtrain sets it, or leaves it "
                            "out",
                            typed, *own),
                "leave it out: `hgtrain submit slurm --help` lists the flags, and --dry_run prints "
                "the script");
  if (!is_one_word(option))
    throw Error(ErrorKind::kConfig,
                fmt::format("--sbatch {}: sbatch would not read all of it as one value", typed),
                "blanks, # and \\ must be in quotes: --sbatch \"comment='my run'\"");
  return "--" + option;
}

class SubmitSlurm final : public Command {
 public:
  std::string_view name() const override { return "submit slurm"; }
  std::string_view summary() const override { return "train as a batch job of Slurm"; }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    training_.add_options(options);
    options.add("--partition", partition_, "partition of the job");
    options.add("--account", account_, "account of the job");
    options.add("--sbatch", sbatch_, "another option of sbatch, such as qos=long; may be repeated")
        .type_name("NAME[=VALUE]")
        .repeatable();
  }

  int run(const std::vector<std::string>& overrides) override {
    for (const auto& [flag, name] : {std::pair("--partition", partition_), {"--account", account_}})
      if (!is_name(name))
        throw Error(
            ErrorKind::kConfig,
            fmt::format("{} {}: a name in Slurm has no blanks, quotes, #, % or \\", flag, name));
    for (std::string& option : sbatch_) option = sbatch_option(option);
    training_.check(overrides, /*is_data_here=*/true);
    if (const auto seconds = training_.seconds(); seconds && *seconds < kMinSeconds)
      throw Error(
          ErrorKind::kConfig,
          fmt::format("--time {} is too short: the job would have to save at once", training_.time),
          fmt::format("use {} minutes or more: it saves in its last {}, and Slurm's signal may "
                      "come a minute earlier",
                      kMinSeconds / 60, kSecondsToSave / 60));
    const std::string text = script(overrides);
    if (training_.dry_run) {
      say("{}", text);
      return 0;
    }
    if (!is_installed("sbatch"))
      throw Error(
          ErrorKind::kDevice, "this machine has no sbatch",
          "type the command on a login node of the cluster, or take --dry_run's script there");
    pipe_to("sbatch", text, "");  // sbatch prints the number of the job
    tell(
        "hgtrain logs -f {0} follows it once it has begun; hgtrain status {0} says how far it is\n",
        shell_word(training_.run_dir));
    return 0;
  }

 private:
  std::string script(const std::vector<std::string>& overrides) const {
    const std::string stem = stem_of(training_.config);
    const std::string name = is_name(stem) ? stem : "hgtrain";
    std::string out = "#!/bin/bash\n";
    const auto option = [&](const std::string& words) { out += "#SBATCH " + words + "\n"; };
    option("--job-name=" + name);
    option(fmt::format("--nodes={} --ntasks-per-node=1", training_.nodes));
    if (training_.gpus) option(fmt::format("--gpus-per-node={}", *training_.gpus));
    option(fmt::format("--cpus-per-task={}", training_.cpus_per_node()));
    if (!training_.time.empty()) option("--time=" + training_.time);
    if (!partition_.empty()) option("--partition=" + partition_);
    if (!account_.empty()) option("--account=" + account_);
    for (const std::string& words : sbatch_) option(words);
    option(fmt::format("--output={}-%j.out --open-mode=append", name));
    option(fmt::format("--requeue --signal=B:USR1@{}", kSecondsToSave));
    std::vector<std::string> words{own_program(), "--launcher", "slurm"};
    for (const std::string& word : training_.arguments(training_.config, overrides))
      words.push_back(word);
    const std::vector<std::string> typed =
        without_switches(own_command_line(), {"--dry_run", "--dry-run"});
    return out + fmt::format(R"(
# Before its time is over, and if it is preempted, the job saves and goes to the queue again to resume.
# It does so, too, if a node or a connection is lost (6); after {1} restarts, only if it ran for an hour.
is_over=0
trap 'is_over=1; kill -USR1 $job' USR1
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
export {3}={4}
{0} &
job=$!
while kill -0 $job 2> /dev/null; do wait $job; done # SIGUSR1 ends a wait
wait $job
status=$?
is_preempted() {{ scontrol show job "$SLURM_JOB_ID" | grep -q 'PreemptTime=[0-9]'; }}
may_restart() {{ [ "${{SLURM_RESTART_COUNT:-0}}" -lt {1} ] || [ $SECONDS -ge {2} ]; }}
case $status in
75) [ $is_over = 1 ] || is_preempted ;;
6) may_restart ;;
*) false ;;
esac && scontrol requeue "$SLURM_JOB_ID"
exit $status
)",
                             shell_line(words), kMaxRequeues, kSoonSeconds, kTypedCommand,
                             shell_word(typed_command_value(typed)));
  }

  SubmittedTraining training_;
  std::string partition_, account_;
  std::vector<std::string> sbatch_;
};

}  // namespace

std::unique_ptr<Command> submit_slurm_command() {
  return std::make_unique<SubmitSlurm>();
}

}  // namespace hgt
