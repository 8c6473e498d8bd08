#include "habits.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/config/schema.h"

#include "shell_words.h"

namespace hgt {
namespace {

struct Habit {
  std::string_view flag;
  std::string_view hint;
};

/// Of torchrun, the deepspeed launcher, mpirun and HF's Trainer, for `train` and `launch`.
constexpr Habit kLaunching[] = {
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
constexpr Habit kTraining[] = {
    {"--deepspeed", "name the file: --config FILE"},
    {"--deepspeed_config", "--config FILE"},
    {"--output_dir", "--run_dir DIR"},
    {"--max_steps", "--steps N"},
    {"--num_train_epochs", "--training.num_epochs N"},
    {"--epochs", "--training.num_epochs N"},
    {"--per_device_train_batch_size", "--train_micro_batch_size_per_gpu N"},
    {"--batch_size",
     "of a step: --train_batch_size N; of a worker: --train_micro_batch_size_per_gpu N"},
    {"--learning_rate", "--optimizer.params.lr VALUE"},
    {"--lr_scheduler_type", "--scheduler.type WarmupCosineLR"},
    {"--warmup_steps", "--scheduler.params.warmup_num_steps N"},
    {"--gradient_checkpointing", "--activation_checkpointing.mode full, or selective"},
    {"--bf16", "--bf16.enabled true"},
    {"--fp16", "--fp16.enabled true"},
    {"--model_name_or_path", "a Hugging Face model folder to start from: --model.init FOLDER"},
    {"--resume_from_checkpoint", "--resume auto, or --resume FOLDER"},
};

template <std::size_t N>
std::string hint_in(const Habit (&habits)[N], std::string_view flag) {
  for (const Habit& habit : habits)
    if (habit.flag == flag) return std::string(habit.hint);
  return "";
}

/// Config keys whose last part is `name`: "--optimizer.params.lr" for "lr".
std::string keys_that_end_in(std::string_view name) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> found;
  for (const std::string& path : config_key_paths())
    if (path.size() > name.size() && path.ends_with(name) &&
        path[path.size() - name.size() - 1] == '.')
      found.push_back("--" + path);
  if (found.empty() || found.size() > kMost) return "";
  return fmt::format("did you mean {}?", fmt::join(found, " or "));
}

}  // namespace

std::string hint_for_flag(std::string_view command, std::string_view flag) {
  if (command != "train" && command != "launch") return "";
  std::string hint = hint_in(kLaunching, flag);
  if (!hint.empty() || command == "launch") return hint;
  std::string training = hint_in(kTraining, flag);
  return training.empty() && flag.size() > 2 ? keys_that_end_in(flag.substr(2)) : training;
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
