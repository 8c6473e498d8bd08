// Options of other training programs, which users may bring along: on the command line, and in
// places of a config file that DeepSpeed ignores.
#include "hgtrain/config/foreign_keys.h"

#include "field.h"

namespace hgt {
namespace {

constexpr std::string_view kFullOnly =
    "hgtrain trains every parameter in full: remove it, or train with another program";
constexpr std::string_view kPacked =
    "hgtrain always packs documents into samples of the same length: remove it";
constexpr std::string_view kSharding = "sharding of parameters is not built yet: remove it";
constexpr std::string_view kNone = "hgtrain has no such option: remove it";
constexpr std::string_view kPrecision = "bf16.enabled or fp16.enabled";

constexpr ForeignKey kForeignKeys[] = {
    {"learning_rate", "optimizer.params.lr", ""},
    {"adam_beta1", "optimizer.params.betas", ""},
    {"adam_beta2", "optimizer.params.betas", ""},
    {"adam_epsilon", "optimizer.params.eps", ""},
    {"optim", "optimizer.type", ""},
    {"optimizer_type", "optimizer.type", ""},
    {"max_grad_norm", "gradient_clipping", ""},
    {"grad_clip", "gradient_clipping", ""},
    {"clip_grad", "gradient_clipping", ""},
    {"gradient_clip", "gradient_clipping", ""},
    {"gradient_clip_val", "gradient_clipping", ""},
    {"lr_scheduler_type", "scheduler.type", ""},
    {"lr_scheduler", "scheduler.type", ""},
    {"lr_decay_style", "scheduler.type", ""},
    {"warmup_steps", "scheduler.params.warmup_num_steps", ""},
    {"num_warmup_steps", "scheduler.params.warmup_num_steps", ""},
    {"lr_warmup_steps", "scheduler.params.warmup_num_steps", ""},
    {"warmup_ratio", "scheduler.params.warmup_num_steps", ""},
    {"num_steps", "training.train_iters", ""},
    {"total_steps", "training.train_iters", ""},
    {"max_train_steps", "training.train_iters", ""},
    {"num_training_steps", "training.train_iters", ""},
    {"max_epochs", "training.num_epochs", ""},
    {"random_seed", "training.seed", ""},
    {"data_seed", "data.seed", ""},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu", ""},
    {"per_gpu_train_batch_size", "train_micro_batch_size_per_gpu", ""},
    {"batch_size", "", "of a step: train_batch_size; of a worker: train_micro_batch_size_per_gpu"},
    {"global_batch_size", "train_batch_size", ""},
    {"gradient_checkpointing", "activation_checkpointing.mode", ""},
    {"gradient_checkpointing_enable", "activation_checkpointing.mode", ""},
    {"use_gradient_checkpointing", "activation_checkpointing.mode", ""},
    {"max_length", "training.seq_length", ""},
    {"max_seq_length", "training.seq_length", ""},
    {"max_seq_len", "training.seq_length", ""},
    {"model_max_length", "training.seq_length", ""},
    {"block_size", "training.seq_length", ""},
    {"cutoff_len", "training.seq_length", ""},
    {"model_name_or_path", "model.init", ""},
    {"tokenizer_name", "tokenizer.path", ""},
    {"tokenizer_name_or_path", "tokenizer.path", ""},
    {"model_name", "model.init", ""},
    {"dataset", "data.train_data_path", ""},
    {"train_file", "data.train_data_path", ""},
    {"dropout", "model.resid_pdrop", ""},
    {"attention_dropout", "model.attn_pdrop", ""},
    {"mixed_precision", "", kPrecision},
    {"precision", "", kPrecision},
    {"torch_dtype", "", kPrecision},
    {"dtype", "", kPrecision},
    {"ema", "training.ema_decay", ""},
    {"use_ema", "training.ema_decay", ""},
    {"trainer", "", "its keys belong to the section training"},
    {"packing", "", kPacked},
    {"sample_packing", "", kPacked},
    {"fsdp", "", kSharding},
    {"fsdp_config", "", kSharding},
    {"label_smoothing", "", kNone},
    {"label_smoothing_factor", "", kNone},
    {"neftune_noise_alpha", "", kNone},
    {"lora", "", kFullOnly},
    {"lora_config", "", kFullOnly},
    {"use_lora", "", kFullOnly},
    {"lora_r", "", kFullOnly},
    {"lora_rank", "", kFullOnly},
    {"lora_alpha", "", kFullOnly},
    {"lora_dropout", "", kFullOnly},
    {"lora_target_modules", "", kFullOnly},
    {"qlora", "", kFullOnly},
    {"peft", "", kFullOnly},
    {"peft_config", "", kFullOnly},
    {"peft_type", "", kFullOnly},
    {"use_peft", "", kFullOnly},
    {"adapter", "", kFullOnly},
    {"adapters", "", kFullOnly},
    {"adapter_config", "", kFullOnly},
    {"finetuning_type", "", kFullOnly},
    {"freeze", "", kFullOnly},
    {"load_in_4bit", "", kFullOnly},
    {"load_in_8bit", "", kFullOnly},
    {"quantization", "", kFullOnly},
    {"quantization_config", "", kFullOnly},
};

}  // namespace

const ForeignKey* find_foreign_key(std::string_view name) {
  for (const ForeignKey& foreign : kForeignKeys)
    if (same_key(foreign.name, name)) return &foreign;
  return nullptr;
}

}  // namespace hgt
