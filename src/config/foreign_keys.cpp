// Options of other training programs, which users may bring along: on the command line, and in
// places of a config file that DeepSpeed ignores.
#include "hgtrain/config/foreign_keys.h"

#include <algorithm>
#include <span>

#include "field.h"

namespace hgt {
namespace {

constexpr std::string_view kFullOnly =
    "hgtrain trains every parameter in full: remove it, or train with another program";
constexpr std::string_view kPacked =
    "hgtrain always packs documents into samples of the same length: remove it";
constexpr std::string_view kSharding = "to shard the parameters, set zero_optimization.stage to 3";
constexpr std::string_view kShardDegree =
    "all data-parallel workers share the shards of zero_optimization.stage, 1 to 3: set that";
constexpr std::string_view kReplicas =
    "leave it out: all workers that the other sizes leave are data-parallel, and "
    "zero_optimization.stage, 1 to 3, shards over all of them";
constexpr std::string_view kLayersOfPart =
    "set parallelism.virtual_pipeline_stages, how many parts each stage has: the model's layers / "
    "(stages * layers of a part)";
constexpr std::string_view kLayersOfStages =
    "list the layers of every stage: parallelism.pipeline_layer_split, for example [5, 7]";
constexpr std::string_view kGathersKeys =
    "leave it out: context ranks always gather keys and values";
constexpr std::string_view kRecompute =
    "activation_checkpointing.mode is none, selective or full; activation_checkpointing.num_layers "
    "says for how many layers";
constexpr std::string_view kExperts = "leave it out: experts are not built yet";
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
    {"batch_size", "",
     "the batch of a step is train_batch_size, that of a worker train_micro_batch_size_per_gpu"},
    {"global_batch_size", "train_batch_size", ""},
    {"gradient_checkpointing", "activation_checkpointing.mode", ""},
    {"gradient_checkpointing_enable", "activation_checkpointing.mode", ""},
    {"use_gradient_checkpointing", "activation_checkpointing.mode", ""},
    {"offload_optimizer", "",
     R"(it belongs to zero_optimization: {"offload_optimizer": {"device": "cpu"}})"},
    {"offload_param", "",
     R"(it belongs to zero_optimization: {"stage": 3, "offload_param": {"device": "cpu"}})"},
    {"cpu_offload", "zero_optimization.offload_optimizer.device", ""},
    {"zero_stage", "zero_optimization.stage", ""},
    {"model_parallel", "parallelism", ""},
    {"parallel", "parallelism", ""},
    {"use_distributed_optimizer", "",
     "zero_optimization.stage 1 splits the optimizer's state among the data-parallel workers"},
    {"autotp_size", "parallelism.tensor_parallel_size", ""},
    {"tp_size", "parallelism.tensor_parallel_size", ""},
    {"mp_size", "parallelism.tensor_parallel_size", ""},
    {"num_tensor_parallel", "parallelism.tensor_parallel_size", ""},
    {"tensor_parallel_world_size", "parallelism.tensor_parallel_size", ""},
    {"pp_size", "parallelism.pipeline_parallel_size", ""},
    {"num_stages", "parallelism.pipeline_parallel_size", ""},
    {"pipeline_stages", "parallelism.pipeline_parallel_size", ""},
    {"pp_schedule", "parallelism.pipeline_schedule", ""},
    {"num_layers_per_virtual_pipeline_stage", "", kLayersOfPart},
    {"pipeline_parallel_layers_per_stage", "", kLayersOfPart},
    {"pipeline_parallel_split_points", "", kLayersOfStages},
    {"pipeline_model_parallel_layout", "", kLayersOfStages},
    {"pipeline_model_parallel_split_rank", "", kLayersOfStages},
    {"decoder_first_pipeline_num_layers", "", kLayersOfStages},
    {"decoder_last_pipeline_num_layers", "", kLayersOfStages},
    {"num_layers_in_first_pipeline_stage", "", kLayersOfStages},
    {"num_layers_in_last_pipeline_stage", "", kLayersOfStages},
    {"pipeline_parallel_microbatch_size", "train_micro_batch_size_per_gpu", ""},
    {"pipeline_parallel_microbatches", "gradient_accumulation_steps", ""},
    {"cp_size", "parallelism.context_parallel_size", ""},
    {"sequence_parallel", "",
     "tensor ranks split activations with parallelism.sequence_parallel = true; to share each "
     "sequence: parallelism.context_parallel_size"},
    {"sp_size", "parallelism.context_parallel_size", ""},
    {"sequence_parallel_degree", "parallelism.context_parallel_size", ""},
    {"ulysses_size", "parallelism.context_parallel_size", ""},
    {"ulysses_degree", "parallelism.context_parallel_size", ""},
    {"ulysses_sequence_parallel_size", "parallelism.context_parallel_size", ""},
    {"dp_size", "parallelism.data_parallel_size", ""},
    {"data_parallel_shard_degree", "", kShardDegree},
    {"dp_shard", "", kShardDegree},
    {"dp_replicate", "", kReplicas},
    {"data_parallel_replicate_degree", "", kReplicas},
    {"module_fqns_per_model_part", "", kLayersOfStages},
    {"pipeline_parallel_first_stage_less_layers", "", kLayersOfStages},
    {"pipeline_parallel_last_stage_less_layers", "", kLayersOfStages},
    {"expert_tensor_parallel_size", "", kExperts},
    {"expert_tensor_parallel_degree", "", kExperts},
    {"fsdp_reshard_after_forward", "",
     "zero_optimization.stage 3 gathers parameters again for the backward pass, 2 keeps them"},
    {"context_parallel_rotate_method", "", kGathersKeys},
    {"cp_comm_type", "", kGathersKeys},
    {"enable_async_tensor_parallel", "", kNone},
    {"disable_loss_parallel", "", "leave it out: tensor ranks always share the head and its loss"},
    {"overlap_grad_reduce", "",
     "leave it out: gradients are always reduced during the backward pass"},
    {"overlap_p2p_communication", "",
     "leave it out: parallelism.pipeline_schedule says when stages exchange"},
    {"distribute_saved_activations", "parallelism.sequence_parallel", ""},
    {"recompute_activations", "", kRecompute},
    {"recompute_granularity", "", kRecompute},
    {"recompute_method", "", kRecompute},
    {"recompute_num_layers", "", kRecompute},
    {"activation_checkpoint", "", kRecompute},
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

constexpr ForeignKey kForeignSizes[] = {
    {"layers", "model.num_hidden_layers", ""},
    {"n_layers", "model.num_hidden_layers", ""},
    {"depth", "model.num_hidden_layers", ""},
    {"num_blocks", "model.num_hidden_layers", ""},
    {"heads", "model.num_attention_heads", ""},
    {"n_heads", "model.num_attention_heads", ""},
    {"num_heads", "model.num_attention_heads", ""},
    {"attention_heads", "model.num_attention_heads", ""},
    {"kv_heads", "model.num_key_value_heads", ""},
    {"n_kv_heads", "model.num_key_value_heads", ""},
    {"num_kv_heads", "model.num_key_value_heads", ""},
    {"hidden", "model.hidden_size", ""},
    {"hidden_dim", "model.hidden_size", ""},
    {"dim", "model.hidden_size", ""},
    {"d_model", "model.hidden_size", ""},
    {"embed_dim", "model.hidden_size", ""},
    {"emb_dim", "model.hidden_size", ""},
    {"embedding_size", "model.hidden_size", ""},
    {"width", "model.hidden_size", ""},
    {"d_ff", "model.intermediate_size", ""},
    {"ffn_dim", "model.intermediate_size", ""},
    {"mlp_dim", "model.intermediate_size", ""},
    {"vocab", "model.vocab_size", ""},
    {"n_vocab", "model.vocab_size", ""},
    {"context", "model.max_position_embeddings", ""},
    {"context_length", "model.max_position_embeddings", ""},
    {"block_size", "model.max_position_embeddings", ""},
    {"max_seq_len", "model.max_position_embeddings", ""},
};

const ForeignKey* find(std::span<const ForeignKey> keys, std::string_view name) {
  const auto found =
      std::ranges::find_if(keys, [&](const ForeignKey& key) { return same_key(key.name, name); });
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace

const ForeignKey* find_foreign_key(std::string_view name) {
  return find(kForeignKeys, name);
}

const ForeignKey* find_foreign_size(std::string_view name) {
  return find(kForeignSizes, name);
}

}  // namespace hgt
