#include "foreign_flags.h"

#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/shell.h"
#include "hgtrain/config/foreign_keys.h"
#include "hgtrain/config/schema.h"

namespace hgt {
namespace {

struct ForeignFlag {
  std::string_view flag;
  std::string_view hint;
};

constexpr std::string_view kMachines =
    "name all machines on one of them, which starts the others: --hosts a:4,b:4, or --hostfile "
    "FILE";
constexpr std::string_view kWorkers = "workers on each machine: --num_workers N, or --num_gpus N";
constexpr std::string_view kLauncherArgs =
    "options of ssh are in ~/.ssh/config; those of srun and mpirun: `srun ARGS hgtrain ...`, or in "
    "variables such as OMPI_MCA_btl_tcp_if_include=eth0";
constexpr std::string_view kElastic =
    "--num_nodes MIN:MAX: a job continues without lost hosts as long as MIN are left";
constexpr std::string_view kLogs = "output in files: --log_dir DIR";
constexpr std::string_view kLogsOnly = "output in files only: --log_dir DIR --show none";
constexpr std::string_view kLogsToo =
    "output in files, too: --log_dir DIR; what is printed: --show all, or --show 0,2-5";
constexpr std::string_view kRunLogs =
    "leave it out: output is in logs/rank_N.log of the run folder";
constexpr std::string_view kShow =
    "ranks whose output is printed: --show 0,2-5; files have the output of all ranks";

/// Flags of torchrun, the deepspeed launcher, accelerate, horovodrun, mpirun and HF's Trainer, for
/// `train` and `launch`.
constexpr ForeignFlag kLaunching[] = {
    {"--nproc_per_node", kWorkers},
    {"--nproc", kWorkers},
    {"--np", kWorkers},
    {"--world_size", kWorkers},
    {"--num_processes", kWorkers},
    {"--num_proc", kWorkers},
    {"-np", kWorkers},
    {"-n", kWorkers},
    {"--gpus", "use --num_gpus N"},
    {"--num_machines", kMachines},
    {"--machine_rank", "this node, from 0: --node_rank R"},
    {"--rdzv_conf", "leave it out; in place of its join_timeout: --join_timeout SECONDS"},
    {"--main_process_ip", "use --master_addr ADDRESS"},
    {"--main_process_port", "use --master_port N"},
    {"--host", "use --hosts a:4,b:4"},
    {"--launcher_args", kLauncherArgs},
    {"--no_ssh_check", "leave it out: a host that cannot be used is named at once"},
    {"--force_multi", "leave it out: hosts that are named are reached by ssh, even one alone"},
    {"--elastic_training", kElastic},
    {"--min_elastic_nodes", kElastic},
    {"--max_elastic_nodes", kElastic},
    {"--venv_script", "activate the environment in this shell: the hosts get PATH and VIRTUAL_ENV"},
    {"--no_local_rank", "leave it out: the program gets no --local_rank, but LOCAL_RANK is set"},
    {"--save_pid", "leave it out: no process outlives the command"},
    {"--bind_cores_to_rank", "leave it out: workers are not bound to cores"},
    {"--bind_core_list", "leave it out: workers are not bound to cores"},
    {"--numa_binding", "leave it out: workers are not bound to cores"},
    {"--local_ranks_filter", kShow},
    {"--log_line_prefix_template", "leave it out: each line begins with its rank"},
    {"--prefix_timestamp", "leave it out; `| ts` puts the time before each line"},
    {"--prefix_output_with_timestamp", "leave it out; `| ts` puts the time before each line"},
    {"--tag_output", "leave it out: each line begins with its rank"},
    {"--standalone", "leave it out: workers of one machine always find each other"},
};
constexpr ForeignFlag kProgram[] = {
    {"--module", "name the whole command: -- python3 -m MODULE"},
    {"-m", "name the whole command: -- python3 -m MODULE"},
    {"--no_python", "leave it out: the program after -- is started as it is"},
    {"--enable_each_rank_log", kLogsOnly},
    {"--redirects", kLogsOnly},
    {"--tee", kLogsToo},
    {"--output_filename", kLogs},
    {"-r", kLogsOnly},
    {"-t", kLogsToo},
};
constexpr ForeignFlag kTraining[] = {
    {"--rdzv_id", "leave it out: the run is called as its folder, --run_dir DIR"},
    {"--tee", "files have the output of all ranks; to print it, too: --show all, or --show 0,2-5"},
    {"--redirects", kRunLogs},
    {"--enable_each_rank_log", kRunLogs},
    {"--log_dir", kRunLogs},
    {"--output_filename", kRunLogs},
    {"--deepspeed", "name the file: --config FILE"},
    {"--deepspeed_config", "use --config FILE"},
    {"--output_dir", "use --run_dir DIR"},
    {"--save", "use --run_dir DIR"},
    {"--load", "use --resume auto, or --resume FOLDER"},
    {"--eval_only", "use hgtrain eval --config FILE"},
    {"--max_steps", "use --steps N"},
    {"--bf16", "use --bf16.enabled true"},
    {"--fp16", "use --fp16.enabled true"},
    {"--model_name_or_path", "a Hugging Face model folder to start from: --model.init FOLDER"},
    {"--lr_scheduler_type", "use --scheduler.type WarmupCosineLR"},
    {"--gradient_checkpointing", "use --activation_checkpointing.mode full, or selective"},
    {"--save_steps", "use --checkpoint.save_interval N"},
    {"--save_total_limit", "use --checkpoint.keep_last_n N"},
    {"--logging_steps", "use --steps_per_print N"},
    {"--zero", "use --zero_optimization.stage N"},
    {"--use_distributed_optimizer", "use --zero_optimization.stage 1"},
    {"--expert_model_parallel_size", "leave it out: experts are not built yet"},
    {"--offload", "use --zero_optimization.offload_optimizer.device cpu"},
    {"--cpu_offload", "use --zero_optimization.offload_optimizer.device cpu"},
    {"--offload_optimizer", "use --zero_optimization.offload_optimizer.device cpu"},
    {"--offload_param",
     "use --zero_optimization.stage 3 --zero_optimization.offload_param.device cpu"},
    {"--resume_from_checkpoint", "use --resume auto, or --resume FOLDER"},
};

/// Flags of other tools that tokenize a text, for `data prepare`.
constexpr ForeignFlag kPreparing[] = {
    {"--output", "did you mean --out?"},      {"--output_prefix", "did you mean --out?"},
    {"--output_dir", "did you mean --out?"},  {"--json_keys", "did you mean --json_field?"},
    {"--workers", "did you mean --threads?"}, {"--num_workers", "did you mean --threads?"},
};

/// Flags of `train` and `eval`, for `generate`.
constexpr ForeignFlag kGenerating[] = {
    {"--config",
     "name the run folder instead, by default runs/NAME of the config: --model runs/NAME"},
    {"--run_dir", "use --model RUN"},
    {"--max_new_tokens", "use --max_tokens N"},
    {"--max_length", "use --max_tokens N"},
};

/// Flags of `train`, and what to type instead with the commands that only read a config.
constexpr ForeignFlag kReading[] = {
    {"--num_workers", "workers of the run, for the batch sizes: --world N"},
    {"--num_gpus", "workers of the run, for the batch sizes: --world N"},
    {"--world_size", "workers of the run, for the batch sizes: --world N"},
    {"--steps", "use --training.train_iters N"},
};

template <std::size_t N>
std::string hint_in(const ForeignFlag (&flags)[N], std::string_view flag) {
  for (const ForeignFlag& known : flags)
    if (known.flag == flag) return std::string(known.hint);
  return "";
}

/// The config keys that a flag without its section can mean: "--optimizer.params.lr" for "--lr".
std::string hint_from_keys(std::string_view name) {
  constexpr std::size_t kMaxPaths = 3;
  const ForeignKey* const size = find_foreign_size(name);
  if (const ForeignKey* const key = size ? size : find_foreign_key(name))
    return key->key.empty() ? std::string(key->hint) : fmt::format("use --{} VALUE", key->key);
  const std::vector<std::string> paths = config_paths_of(name);
  if (paths.empty() || paths.size() > kMaxPaths) return "";
  return fmt::format("did you mean --{}?", fmt::join(paths, " or --"));
}

}  // namespace

std::string hint_for_flag(std::string_view command, std::string_view flag) {
  if (command == "config check" || command == "config show") {
    const std::string reading = hint_in(kReading, flag);
    return reading.empty() && flag.size() > 2 ? hint_from_keys(flag.substr(2)) : reading;
  }
  if (command == "data prepare") return hint_in(kPreparing, flag);
  if (command == "generate") return hint_in(kGenerating, flag);
  if (command != "train" && command != "launch") return "";
  std::string hint = hint_in(kLaunching, flag);
  if (!hint.empty()) return hint;
  if (command == "launch") return hint_in(kProgram, flag);
  std::string training = hint_in(kTraining, flag);
  return training.empty() && flag.size() > 2 ? hint_from_keys(flag.substr(2)) : training;
}

std::string hint_for_word(std::string_view command, const std::string& word) {
  const std::string typed = shell_line({word});
  if (command == "train") return "use hgtrain --config " + typed;
  if (command == "data prepare") return fmt::format("use --input {}", typed);
  if (command == "generate")
    return std::filesystem::is_directory(word)
               ? fmt::format("use --model {} --prompt TEXT", typed)
               : fmt::format("use --model FOLDER --prompt {}", typed);
  if (command == "launch")
    return fmt::format("put -- before the program: hgtrain launch ... -- {} ...", typed);
  return "";
}

}  // namespace hgt
