#include "foreign_flags.h"

#include <algorithm>
#include <array>
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

/// Of torchrun and the deepspeed launcher. A flag that changes what a program computes is not here:
/// it works, or it is refused with a hint.
constexpr IdleFlag kIdle[] = {
    {"--use_env", false, ""},
    {"--no_local_rank", false, ""},
    {"--no_ssh_check", false, ""},
    {"--force_multi", false, ""},
    {"--monitor_interval", true, ""},
    {"--start_method", true, "each worker is a program of its own"},
    {"--save_pid", false, "no process outlives the command"},
};

constexpr std::string_view kMachines =
    "name all machines on one of them, which starts the others: --hosts a:4,b:4, or --hostfile "
    "FILE";
constexpr std::string_view kWorkers = "workers on each machine: --num_workers N, or --num_gpus N";
constexpr std::string_view kTotal =
    "leave it out with --hosts a:2,b:2 or --hostfile FILE, which say the workers of each host; on "
    "this machine, use --num_workers N";
constexpr std::string_view kLauncherArgs =
    "options of ssh are in ~/.ssh/config; those of srun and mpirun: `srun ARGS hgtrain ...`, or in "
    "variables such as OMPI_MCA_btl_tcp_if_include=eth0";
constexpr std::string_view kElastic =
    "--num_nodes MIN:MAX: a job continues without lost hosts as long as MIN are left";
constexpr std::string_view kLogs = "output in files: --log_dir DIR";
constexpr std::string_view kRunLogs =
    "leave it out: output is in logs/rank_N.log of the run folder";
constexpr std::string_view kShow =
    "ranks whose output is printed: --show 0,2-5; files have the output of all ranks";
constexpr std::string_view kOwnFlag =
    "flags of the program follow it: hgtrain launch ... -- python3 train.py --deepspeed FILE";
constexpr std::string_view kNetwork =
    "iface=NAME in the lines of a hostfile, which also sets NCCL_SOCKET_IFNAME";
constexpr std::string_view kNoCores = "leave it out: workers are not bound to cores";
constexpr std::string_view kOrder = "leave it out: hosts have their ranks in the order of the list";
constexpr std::string_view kFolder =
    "leave it out, and cd into the folder first: programs work in the current one, on every host";
constexpr std::string_view kExport = "use --export NAME, or --env NAME=VALUE";
constexpr std::string_view kNoMpi =
    "leave it out: the hosts are reached by ssh, or by mpirun with --launcher openmpi";

/// Flags of torchrun, the deepspeed launcher, accelerate, horovodrun, mpirun and HF's Trainer, for
/// `train` and `launch`.
constexpr ForeignFlag kLaunching[] = {
    {"--nproc", kWorkers},
    {"--world_size", kWorkers},
    {"--num_processes", kWorkers},
    {"-np", kTotal},
    {"--np", kTotal},
    {"-n", kTotal},
    {"--num_proc", kTotal},
    {"--allow_run_as_root", "leave it out: every user may start hgtrain"},
    {"-x", kExport},
    {"-p", "use --ssh_port N"},
    {"--wdir", kFolder},
    {"-wdir", kFolder},
    {"--host_discovery_script",
     "name all hosts that may take part, of which MIN are enough: --hosts a:4,b:4 --num_nodes "
     "MIN:MAX"},
    {"--mca", kLauncherArgs},
    {"-mca", kLauncherArgs},
    {"--bind_to", kNoCores},
    {"-bind-to", kNoCores},
    {"--map_by", kOrder},
    {"-map-by", kOrder},
    {"--gpus", "use --num_gpus N"},
    {"--num_machines", kMachines},
    {"--machine_rank", "this node, from 0: --node_rank R"},
    {"--main_process_ip", "use --master_addr ADDRESS"},
    {"--main_process_port", "use --master_port N"},
    {"--host", "use --hosts a:4,b:4"},
    {"--launcher_args", kLauncherArgs},
    {"--elastic_training", kElastic},
    {"--min_elastic_nodes", kElastic},
    {"--max_elastic_nodes", kElastic},
    {"--venv_script", "activate the environment in this shell: the hosts get PATH and VIRTUAL_ENV"},
    {"--bind_cores_to_rank", kNoCores},
    {"--bind_core_list", kNoCores},
    {"--numa_binding", kNoCores},
    {"--log_line_prefix_template", "leave it out: each line begins with its rank"},
    {"--prefix_timestamp", "leave it out; `| ts` puts the time before each line"},
    {"--prefix_output_with_timestamp", "leave it out; `| ts` puts the time before each line"},
    {"--tag_output", "leave it out: each line begins with its rank"},
    {"--local_rank", "leave it out: each worker gets its number as LOCAL_RANK"},
    {"--virtual_local_rank",
     "each worker sees all GPUs of its host; for one GPU each: -- sh -c "
     "'CUDA_VISIBLE_DEVICES=$LOCAL_RANK LOCAL_RANK=0 exec python3 train.py'"},
    {"--event_log_handler", "leave it out: run.json says how the job ended"},
    {"--signals_to_handle", "leave it out: SIGTERM, SIGINT, SIGHUP and SIGQUIT are passed on"},
    {"--duplicate_stdout_filters", "ranks whose output is printed: --show 0,2-5"},
    {"--duplicate_stderr_filters", "ranks whose output is printed: --show 0,2-5"},
    {"--local_addr", "addr=ADDRESS in the line of a hostfile"},
    {"--autotuning", "leave it out: hgtrain tunes no settings"},
    {"--multi_gpu", "leave it out: one worker is started for each visible GPU"},
    {"--gpu_ids", "choose GPUs of this machine: --include localhost:0,2"},
    {"--gloo", kNoMpi},
    {"--mpi", kNoMpi},
    {"--network_interface", kNetwork},
    {"--network_interfaces", kNetwork},
    {"--min_np", kElastic},
    {"--max_np", kElastic},
    {"--start_timeout", "for nodes that are started one by one: --join_timeout SECONDS"},
    {"--verbose", "use --log_level info"},
};
constexpr ForeignFlag kProgram[] = {
    {"--config", "to train a model: hgtrain --config FILE; flags of a program follow it"},
    {"--deepspeed", kOwnFlag},
    {"--deepspeed_config", kOwnFlag},
    {"--run_path", "name the whole command: -- python3 FILE"},
    {"--mixed_precision", "use --env ACCELERATE_MIXED_PRECISION=VALUE"},
    {"--dynamo_backend", "use --env ACCELERATE_DYNAMO_BACKEND=VALUE"},
    {"--config_file", "leave it out: give what it says as flags"},
    {"--cpu", "use --num_workers N --env ACCELERATE_USE_CPU=true"},
    {"--timeline_filename", "use --env HOROVOD_TIMELINE=FILE"},
    {"--module",
     "name the module behind launch's own flags, or the whole command: -- python3 -m MODULE"},
    {"-m", "name the module behind launch's own flags, or the whole command: -- python3 -m MODULE"},
    {"--no_python", "name the program behind launch's own flags, after two dashes"},
    {"--output_filename", kLogs},
    {"--logs_specs", "use --log_dir, --tee and --redirects"},
    {"--oversubscribe", "leave it out: each host gets as many workers as you name"},
};
constexpr ForeignFlag kTraining[] = {
    {"--standalone", "leave it out: workers of one machine always find each other"},
    {"--role", "leave it out: each log is called as its rank"},
    {"--shutdown_timeout", "leave it out: workers have 30 s from SIGTERM to SIGKILL"},
    {"--local_ranks_filter", kShow},
    {"--rdzv_id", "leave it out: the run is called as its folder, --run_dir DIR"},
    {"--tee", "files have the output of all ranks; to print it, too: --show all, or --show 0,2-5"},
    {"--redirects", kRunLogs},
    {"--enable_each_rank_log", kRunLogs},
    {"--log_dir", kRunLogs},
    {"--logs_specs", kRunLogs},
    {"--output_filename", kRunLogs},
    {"-c", "use --config FILE"},
    {"--deepspeed", "name the file: --config FILE"},
    {"--config_file", "use --config FILE"},
    {"--cpu", "use --device cpu"},
    {"--dynamo_backend", "leave it out: nothing is compiled for a job"},
    {"--timeline_filename", "use --trace FILE"},
    {"--output_dir", "use --run_dir DIR"},
    {"--save", "use --run_dir DIR"},
    {"--load", "use --resume auto, or --resume FOLDER"},
    {"--eval_only", "use hgtrain eval --config FILE"},
    {"--max_steps", "use --steps N"},
    {"--bf16", "use --bf16.enabled true"},
    {"--fp16", "use --fp16.enabled true"},
    {"--model", "a Hugging Face model folder to start from: --model.init FOLDER"},
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

/// Flags of `train`, for `submit`.
constexpr ForeignFlag kSubmitting[] = {
    {"--num_gpus", "GPUs of each node: --gpus N"},
    {"--num_nodes", "use --nodes N"},
    {"--nnodes", "use --nodes N"},
    {"--config", "name the file without a flag"},
    {"--device", "GPUs of each node: --gpus N; workers on its CPUs: --num_workers N"},
    {"--steps", "use --training.train_iters N"},
    {"--resume", "leave it out: a job resumes its run folder (--run_dir) if that has a checkpoint"},
};

/// Options of sbatch, for `submit slurm`.
constexpr ForeignFlag kOfSbatch[] = {
    {"--qos", "use --sbatch qos=NAME"},
    {"--mem", "use --sbatch mem=SIZE"},
    {"--constraint", "use --sbatch constraint=LIST"},
    {"--exclusive", "use --sbatch exclusive"},
    {"--reservation", "use --sbatch reservation=NAME"},
};

template <std::size_t N>
std::string hint_in(const ForeignFlag (&flags)[N], std::string_view flag) {
  for (const ForeignFlag& known : flags)
    if (known.flag == flag) return std::string(known.hint);
  return "";
}

bool is_for_one_machine(std::string_view command) {
  return command == "eval" || command == "generate" || command == "data prepare" ||
         command.starts_with("bench ");
}

bool names_hosts(std::string_view flag) {
  constexpr std::array kFlags{"--hosts", "--hostfile", "--num_nodes", "--nnodes"};
  return std::ranges::find(kFlags, flag) != kFlags.end();
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

std::span<const IdleFlag> idle_flags(std::string_view command) {
  if (command != "train" && command != "launch") return {};
  return kIdle;
}

std::string hint_for_flag(std::string_view command, std::string_view flag) {
  const auto or_from_keys = [&](std::string hint) {
    return hint.empty() && flag.size() > 2 ? hint_from_keys(flag.substr(2)) : hint;
  };
  if (command == "config check" || command == "config show")
    return or_from_keys(hint_in(kReading, flag));
  if (is_for_one_machine(command) && names_hosts(flag))
    return fmt::format("{0} runs on one machine: ssh HOST 'cd FOLDER && hgtrain {0} ...'", command);
  if (command == "data prepare") return hint_in(kPreparing, flag);
  if (command == "generate") return hint_in(kGenerating, flag);
  if (command == "submit slurm")
    if (const std::string hint = hint_in(kOfSbatch, flag); !hint.empty()) return hint;
  if (command.starts_with("submit ")) return hint_in(kSubmitting, flag);
  if (command != "train" && command != "launch") return "";
  std::string hint = hint_in(kLaunching, flag);
  if (!hint.empty()) return hint;
  return command == "launch" ? hint_in(kProgram, flag) : or_from_keys(hint_in(kTraining, flag));
}

std::string hint_for_launcher(std::string_view word) {
  for (const std::string_view launcher : {"torchrun", "deepspeed", "horovodrun"})
    if (word == launcher)
      return fmt::format("hgtrain launch takes the place of {}, with its flags: hgtrain launch ...",
                         word);
  return "";
}

std::string hint_for_script(const std::string& word) {
  if (!word.ends_with(".py")) return "";
  return fmt::format(
      "to start a script of your own: hgtrain launch ... -- python3 {} ...; hgtrain "
      "itself trains from a config: hgtrain --config FILE",
      shell_word(word));
}

std::string hint_for_value(std::string_view flag, std::string_view value) {
  if (flag != "--num_workers" && flag != "--num_gpus" && flag != "--num_accelerators") return "";
  if (value == "gpu" || value == "auto")
    return "leave it out: one worker is started for each visible GPU";
  return value == "cpu" ? "for a worker on each core: --num_workers $(nproc)" : "";
}

std::string hint_for_word(std::string_view command, const std::string& word) {
  const std::string typed = shell_word(word);
  if (command == "train" || command == "launch")
    if (const std::string hint = hint_for_launcher(word); !hint.empty()) return hint;
  if (command == "train") {
    const std::string hint = hint_for_script(word);
    return hint.empty() ? "use hgtrain --config " + typed : hint;
  }
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
