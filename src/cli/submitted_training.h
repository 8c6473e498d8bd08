#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hgt {

/// The time between the scheduler's signal that the job's time is over and its end.
inline constexpr int kSecondsToSave = 120;

class Options;

/// A training that a scheduler starts on its nodes: what `submit slurm` and `submit k8s` share.
struct SubmittedTraining {
  std::string config, run_dir;
  std::string time;  ///< limit of the job, in sbatch's form; "" = none
  int nodes = 1;
  std::optional<int> gpus, workers, cpus;  ///< of each node
  bool dry_run = false;

  /// The argument CONFIG and the flags of these fields.
  void add_options(Options& options);

  /// GPUs or workers of each node.
  int per_node() const { return gpus ? *gpus : *workers; }
  int cpus_per_node() const { return cpus.value_or(per_node()); }
  /// Of `time`. Error(kConfig) if it has another form.
  std::optional<std::int64_t> seconds() const;

  /// Checks the flags, and the config for all workers of the job, so that nobody waits in a queue
  /// for an error. Data is opened only if it is here. Afterwards run_dir is set. Throws the
  /// Errors of make_train_plan().
  void check(const std::vector<std::string>& overrides, bool is_data_here);

  /// What follows the program's name on each node: the training of `config_there`, which resumes
  /// if it has begun.
  std::vector<std::string> arguments(const std::string& config_there,
                                     const std::vector<std::string>& overrides) const;
};

/// The config's name without folder and extension: "small" for a/small.json.
std::string stem_of(const std::string& config);

/// Whether PATH has the program.
bool is_installed(const std::string& program);

/// Runs `command`, a shell command line that contains no text from users, with `text` as its
/// standard input. What it prints goes to this process's output. Error(kConfig) with the hint if it
/// fails.
void pipe_to(const std::string& command, const std::string& text, const std::string& hint);

}  // namespace hgt
