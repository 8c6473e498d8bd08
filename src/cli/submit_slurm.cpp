#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sys/wait.h>

#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/launch/job.h"

#include "check_flags.h"
#include "commands.h"
#include "options.h"
#include "train_plan.h"

namespace hgt {
namespace {

constexpr int kSecondsToSave = 120;

class SubmitSlurm final : public Command {
 public:
  std::string_view name() const override { return "submit slurm"; }
  std::string_view summary() const override { return "train as a batch job of Slurm"; }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    options.add("CONFIG", config_, "the config of the training").required();
    options.add("--nodes", nodes_, "nodes of the job (default: 1)");
    options.add("--gpus", gpus_, "GPUs of each node to train on");
    options.add("--num_workers", workers_, "instead: workers on the CPUs of each node");
    options.add("--cpus", cpus_, "CPUs of each node (default: one for each GPU or worker)");
    options.add("--time", time_, "limit of the job, as sbatch takes it: 12:00:00");
    options.add("--partition", partition_, "partition of the job");
    options.add("--account", account_, "account of the job");
    options.add("--run_dir", run_dir_, "where the run is kept (default: runs/NAME of the config)");
    options.add_flag("--dry_run", dry_run_, "print the job's script, submit nothing");
  }

  int run(const std::vector<std::string>& overrides) override {
    if (gpus_.has_value() == workers_.has_value())
      throw Error(ErrorKind::kConfig, "a job needs either --gpus or --num_workers",
                  "--gpus 8 for eight GPUs of each node");
    check_range("--nodes", nodes_, 1, 100'000);
    check_range(gpus_ ? "--gpus" : "--num_workers", per_node(), 1, 1024);
    check_range("--cpus", cpus_.value_or(1), 1, 100'000);
    for (const std::string* text : {&time_, &partition_, &account_, &run_dir_, &config_})
      if (text->find_first_of("\n\r") != std::string::npos)
        throw Error(ErrorKind::kConfig, "a value has more than one line");
    if (run_dir_.empty()) run_dir_ = default_run_dir(config_);
    check_config(overrides);
    const std::string text = script(overrides);
    if (dry_run_) {
      say("{}", text);
      return 0;
    }
    submit(text);
    tell(
        "hgtrain logs -f {0} follows it once it has begun; hgtrain status {0} says how far it is\n",
        shell_line({run_dir_}));
    return 0;
  }

 private:
  int per_node() const { return gpus_ ? *gpus_ : *workers_; }

  /// Here, so that nobody waits in a queue for an error.
  void check_config(const std::vector<std::string>& overrides) const {
    TrainFlags flags;
    flags.config = config_;
    flags.dry_run = true;
    (gpus_ ? flags.num_gpus : flags.num_workers) = std::int64_t{nodes_} * per_node();
    make_train_plan(flags, overrides);
  }

  std::string script(const std::vector<std::string>& overrides) const {
    const std::string stem = std::filesystem::path(config_).stem();
    const std::string name = stem.find_first_of(" \t") == std::string::npos ? stem : "hgtrain";
    std::string out = "#!/bin/bash\n";
    const auto option = [&](const std::string& words) { out += "#SBATCH " + words + "\n"; };
    option("--job-name=" + name);
    option(fmt::format("--nodes={} --ntasks-per-node=1", nodes_));
    if (gpus_) option(fmt::format("--gpus-per-node={}", *gpus_));
    option(fmt::format("--cpus-per-task={}", cpus_.value_or(per_node())));
    if (!time_.empty()) option("--time=" + time_);
    if (!partition_.empty()) option("--partition=" + partition_);
    if (!account_.empty()) option("--account=" + account_);
    option(fmt::format("--output={}-%j.out --open-mode=append", name));
    option(fmt::format("--requeue --signal=B:USR1@{}", kSecondsToSave));
    std::vector<std::string> words{own_program(), "--launcher", "slurm",    "--config", config_,
                                   "--run_dir",   run_dir_,     "--resume", "auto"};
    const std::string count = std::to_string(per_node());
    if (gpus_)
      words.insert(words.end(), {"--num_gpus", count});
    else
      words.insert(words.end(), {"--device", "cpu", "--num_workers", count});
    for (std::size_t i = 0; i < overrides.size(); ++i)  // key, value, key, ...
      words.push_back(i % 2 == 0 ? "--" + overrides[i] : overrides[i]);
    return out + fmt::format(R"(
# Before its time is over, the job saves, and goes to the queue again to resume.
is_over=0
trap 'is_over=1; kill -USR1 $job' USR1
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
{} &
job=$!
wait $job
status=$?
while [ $status = 138 ]; do # SIGUSR1 has come while it waited
  wait $job
  status=$?
done
if [ $status = 75 ] && [ $is_over = 1 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
)",
                             shell_line(words));
  }

  /// sbatch prints the number of the job.
  static void submit(const std::string& script) {
    const char* const path = std::getenv("PATH");
    try {
      find_program("sbatch", path ? path : "");
    } catch (const Error&) {
      throw Error(
          ErrorKind::kDevice, "this machine has no sbatch",
          "type the command on a login node of the cluster, or take --dry_run's script there");
    }
    FILE* const sbatch = ::popen("sbatch", "we");
    if (sbatch == nullptr) throw Error(ErrorKind::kDevice, "sbatch cannot be started");
    std::fwrite(script.data(), 1, script.size(), sbatch);
    const int status = ::pclose(sbatch);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      throw Error(ErrorKind::kConfig, "sbatch has refused the job", "its own message says why");
  }

  std::string config_, time_, partition_, account_, run_dir_;
  int nodes_ = 1;
  std::optional<int> gpus_, workers_, cpus_;
  bool dry_run_ = false;
};

}  // namespace

std::unique_ptr<Command> submit_slurm_command() {
  return std::make_unique<SubmitSlurm>();
}

}  // namespace hgt
