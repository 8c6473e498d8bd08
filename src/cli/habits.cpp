#include "habits.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/config/habits.h"
#include "hgtrain/config/schema.h"

#include "shell_words.h"

namespace hgt {
namespace {

struct FlagHabit {
  std::string_view flag;
  std::string_view hint;
};

/// Of torchrun, the deepspeed launcher, mpirun and HF's Trainer, for `train` and `launch`.
constexpr FlagHabit kLaunching[] = {
    {"--nproc_per_node", "workers on this machine: --num_workers N, or --num_gpus N"},
    {"--nproc", "workers on this machine: --num_workers N, or --num_gpus N"},
    {"--world_size", "workers on this machine: --num_workers N, or --num_gpus N"},
    {"--gpus", "--num_gpus N"},
    {"--nnodes", "leave it out: one machine only so far"},
    {"--node_rank", "leave it out: one machine only so far"},
    {"--hostfile", "leave it out: one machine only so far"},
    {"--master_addr", "leave it out: one machine only so far"},
    {"--standalone", "leave it out: workers of one machine always find each other"},
};
constexpr FlagHabit kTraining[] = {
    {"--deepspeed", "name the file: --config FILE"},
    {"--deepspeed_config", "--config FILE"},
    {"--output_dir", "--run_dir DIR"},
    {"--max_steps", "--steps N"},
    {"--bf16", "--bf16.enabled true"},
    {"--fp16", "--fp16.enabled true"},
    {"--model_name_or_path", "a Hugging Face model folder to start from: --model.init FOLDER"},
    {"--lr_scheduler_type", "--scheduler.type WarmupCosineLR"},
    {"--gradient_checkpointing", "--activation_checkpointing.mode full, or selective"},
    {"--save_steps", "--checkpoint.save_interval N"},
    {"--save_total_limit", "--checkpoint.keep_last_n N"},
    {"--logging_steps", "--steps_per_print N"},
    {"--resume_from_checkpoint", "--resume auto, or --resume FOLDER"},
};

template <std::size_t N>
std::string hint_in(const FlagHabit (&habits)[N], std::string_view flag) {
  for (const FlagHabit& habit : habits)
    if (habit.flag == flag) return std::string(habit.hint);
  return "";
}

/// The config keys that a flag without its section can mean: "--optimizer.params.lr" for "--lr".
std::string hint_from_keys(std::string_view name) {
  constexpr std::size_t kMost = 3;
  if (const Habit* const habit = find_habit(name))
    return habit->key.empty() ? std::string(habit->hint) : fmt::format("--{} VALUE", habit->key);
  const std::vector<std::string> paths = config_paths_of(name);
  if (paths.empty() || paths.size() > kMost) return "";
  return fmt::format("did you mean --{}?", fmt::join(paths, " or --"));
}

}  // namespace

std::string hint_for_flag(std::string_view command, std::string_view flag) {
  if (command != "train" && command != "launch") return "";
  std::string hint = hint_in(kLaunching, flag);
  if (!hint.empty() || command == "launch") return hint;
  std::string training = hint_in(kTraining, flag);
  return training.empty() && flag.size() > 2 ? hint_from_keys(flag.substr(2)) : training;
}

std::string hint_for_word(std::string_view command, const std::string& word) {
  const std::string typed = shell_line({word});
  if (command == "train") return "hgtrain --config " + typed;
  if (command == "data prepare") return fmt::format("--input {}", typed);
  if (command == "generate") return fmt::format("--model FOLDER --prompt {}", typed);
  if (command == "launch")
    return fmt::format("two dashes stand before the program: hgtrain launch ... -- {} ...", typed);
  return "";
}

}  // namespace hgt
