// DeepSpeed's sections for which a native Transformer trainer has little use. If they are switched
// off, they have no effect; if they are switched on, they are reported.
#include <nlohmann/json.hpp>

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the keys that DeepSpeed reads in a section that is not built. Others count as unknown.
Field with_keys(Field out, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    out.fields.push_back(ignored(name, Kind::kAny, "an option of a feature that is not built"));
  out.open = true;
  return out;
}

/// A section whose `enabled` switches on a feature that is not built.
Field switched(std::string name, const std::string& help, const std::vector<std::string>& keys,
               std::string hint = "") {
  return with_keys(
      section(std::move(name), help,
              {not_built("enabled", Kind::kBool, "false", help).instead(std::move(hint))}),
      keys);
}

Field aio() {
  Field out = section("aio", "DeepSpeed's NVMe library", {});
  out.key_class = KeyClass::kIgnored;
  out.open = true;
  for (const char* name : {"block_size", "queue_depth", "intra_op_parallelism"})
    out.fields.push_back(ignored(name, Kind::kInteger, "an option of offloading to NVMe"));
  for (const char* name : {"single_submit", "overlap_events", "use_gds"})
    out.fields.push_back(ignored(name, Kind::kBool, "an option of offloading to NVMe"));
  out.fields[2].aliases = {"thread_count"};
  return out;
}

/// 0 and 1 both mean that layers are not split.
Field tensor_parallel_degree(std::string name) {
  Field out = moved(std::move(name), Kind::kInteger, "parallelism.tensor_parallel_size");
  out.moves = [](const Json& value) {
    return std::vector<Moved>{{"parallelism.tensor_parallel_size", value == 0 ? "1" : ""}};
  };
  return out;
}

Field tensor_parallel() {
  Field out = section(
      "tensor_parallel", "DeepSpeed's AutoTP",
      {
          tensor_parallel_degree("autotp_size"),
          section("tp", "",
                  {tensor_parallel_degree("tp_size"),
                   ignored("tp_grain_size", Kind::kInteger, "an option of DeepSpeed's AutoTP"),
                   ignored("mpu", Kind::kAny, "an option of DeepSpeed's AutoTP"),
                   ignored("tp_group", Kind::kAny, "an option of DeepSpeed's AutoTP")}),
          ignored("preset_model", Kind::kText, "an option of DeepSpeed's AutoTP"),
          not_built("partition_config", Kind::kAny, "null", "which weights AutoTP splits, and how")
              .instead("leave it out: parallelism.tensor_parallel_size splits every layer, the "
                       "embedding and the head"),
          ignored("tp_overlap_comm", Kind::kBool, "an option of DeepSpeed's AutoTP"),
          ignored("vocab_parallel_lm_head", Kind::kBool, "an option of DeepSpeed's AutoTP"),
          ignored("vocab_parallel_ce_backend", Kind::kText, "an option of DeepSpeed's AutoTP"),
          ignored("dtype", Kind::kText, "an option of DeepSpeed's AutoTP"),
          ignored("injection_policy_tuple", Kind::kAny, "an option of DeepSpeed's AutoTP"),
          ignored("keep_module_on_host", Kind::kBool, "an option of DeepSpeed's AutoTP"),
          ignored("kernel_inject", Kind::kBool, "an option of DeepSpeed's AutoTP")
              .aka({"replace_with_kernel_inject"}),
      });
  return out;
}

Field pipeline() {
  Field stages = moved("stages", Kind::kInteger, "parallelism.pipeline_parallel_size");
  stages.auto_value = "1";
  Field partition = not_built("partition", Kind::kText, "\"best\"",
                              "how layers are assigned to stages; best: by their operations, as "
                              "parallelism.pipeline_layer_split does");
  partition.hint =
      "leave it out to split by operations, with the head's; or name the layers of each stage: "
      "parallelism.pipeline_layer_split, for example [6, 6]";
  Field out =
      section("pipeline", "DeepSpeed's pipeline engine",
              {
                  stages,
                  partition,
                  ignored("seed_layers", Kind::kBool, "every layer has a seed of its own"),
                  not_built("activation_checkpoint_interval", Kind::kInteger, "0",
                            "layers per recomputed segment")
                      .instead("to recompute each layer: activation_checkpointing.mode = "
                               "\"full\""),
                  ignored("pipe_partitioned", Kind::kBool, "an option of DeepSpeed's stages"),
                  ignored("grad_partitioned", Kind::kBool, "an option of DeepSpeed's stages"),
                  ignored("use_reentrant", Kind::kBool, "an option of PyTorch's recomputation"),
              });
  out.open = true;
  return out;
}

Field data_efficiency() {
  Field sampling = switched(
      "data_sampling", "curriculum sampling, dynamic batching",
      {"num_epochs", "num_workers", "pin_memory", "curriculum_learning", "dynamic_batching"});
  Field routing = switched("data_routing", "random layer-wise token dropping", {"random_ltd"});
  Field out =
      section("data_efficiency", "DeepSpeed's data efficiency library",
              {not_built("enabled", Kind::kBool, "false", "DeepSpeed's data efficiency library"),
               ignored("seed", Kind::kInteger, "see data.seed"), sampling, routing});
  out.open = true;
  return out;
}

Field compression_training() {
  const std::string what = "pruning and quantisation";
  std::vector<Field> techniques = {
      switched("layer_reduction", "fewer layers",
               {"keep_number_layer", "module_name_prefix", "teacher_layer", "other_module_name"})};
  const std::vector<std::string> keys = {"schedule_offset",
                                         "schedule_offset_end",
                                         "schedule_offset_stride",
                                         "method",
                                         "block_pattern",
                                         "dense_ratio",
                                         "excluded_modules",
                                         "num_heads",
                                         "quantizer_kernel",
                                         "quantize_groups",
                                         "quantize_verbose",
                                         "quantization_type",
                                         "quantize_weight_in_forward",
                                         "rounding",
                                         "range_calibration",
                                         "fp16_mixed_quantize"};
  for (const char* name : {"weight_quantization", "activation_quantization", "sparse_pruning",
                           "row_pruning", "head_pruning", "channel_pruning"})
    techniques.push_back(with_keys(section(name, what, {switched("shared_parameters", what, keys)}),
                                   {"different_groups"}));
  Field out = section("compression_training", what, std::move(techniques));
  out.open = true;
  return out;
}

Field compile() {
  return with_keys(section("compile", "torch.compile",
                           {not_built("deepcompile", Kind::kBool, "false", "DeepCompile")
                                .instead("remove it: there is no PyTorch graph to compile")}),
                   {"enabled",
                    "backend",
                    "kwargs",
                    "autoep_non_moe",
                    "free_activation",
                    "free_activation_threshold",
                    "offload_activation",
                    "offload_activation_pin_memory",
                    "offload_opt_states",
                    "offload_parameters",
                    "double_buffer",
                    "symmetric_memory",
                    "debug_log",
                    "sync_before_reduce",
                    "sync_after_reduce",
                    "sync_before_allgather",
                    "sync_after_allgather",
                    "keep_int_input_tensors",
                    "keep_all_input_tensors",
                    "passes"});
}

Field expert_parallel() {
  return switched("expert_parallel", "mixture of experts",
                  {"autoep_size",
                   "expert_tensor_parallel_size",
                   "validate_folding_routing",
                   "async_split_plan",
                   "preset_model",
                   "moe_layer_pattern",
                   "expert_pattern",
                   "router_pattern",
                   "use_grouped_mm",
                   "disable_triton_grouped_mm",
                   "route_norm",
                   "route_scale",
                   "score_apply",
                   "combine_impl",
                   "row_weighting_impl",
                   "gate_up_impl",
                   "comm_backend",
                   "comm_num_sm",
                   "comm_qp_margin",
                   "comm_max_tokens_per_rank",
                   "num_expert_groups",
                   "num_limited_groups",
                   "score_func",
                   "top_k",
                   "load_balance_coeff",
                   "routed_scaling_factor",
                   "expert_w1",
                   "expert_w2",
                   "expert_w3",
                   "num_experts_attr",
                   "top_k_attr",
                   "has_shared_experts",
                   "shared_experts_pattern",
                   "shared_experts_gate_pattern",
                   "expert_activation"});
}

}  // namespace

std::vector<Field> deepspeed_sections() {
  Field datastates = not_built("datastates_ckpt", Kind::kAny, "false", "DataStates checkpoints")
                         .instead("remove it: checkpoint.async_save writes in the background");
  return {
      aio(),
      tensor_parallel(),
      pipeline(),
      elasticity_section(),
      data_efficiency(),
      compile(),
      refused("sparse_attention", "DeepSpeed has removed it, and attention here is dense",
              "remove the section to train with dense attention"),
      datastates,
      expert_parallel(),
      switched("nebula", "Azure's checkpoint service",
               {"load_path", "nebula_load_path", "enable_nebula_load", "persistent_storage_path",
                "persistent_time_interval", "num_of_version_in_retention"},
               "remove it: checkpoint.async_save writes in the background"),
      switched("fp8", "8-bit floating point",
               {"format", "recipe", "margin", "backend", "opt_level"}, "use bf16.enabled"),
      switched("msamp", "8-bit floating point of MS-AMP", {"opt_level"}, "use bf16.enabled"),
      switched("curriculum_learning", "sequence length that grows during training",
               {"curriculum_type", "min_difficulty", "max_difficulty", "schedule_type",
                "schedule_config"}),
      switched("progressive_layer_drop", "layers dropped at random", {"theta", "gamma"}),
      switched("hybrid_engine", "DeepSpeed's engine for RLHF",
               {"max_out_tokens", "inference_tp_size", "release_inference_cache", "pin_parameters",
                "tp_gather_partition_size", "enable_cuda_graph"}),
      switched("quantize_training", "quantisation-aware training",
               {"quantize_bits", "quantize_schedule", "quantize_groups", "fp16_mixed_quantize",
                "quantize_change_ratio", "quantize_type", "quantize_algo", "quantize_verbose",
                "quantizer_kernel", "quantize_eigenvalue", "quantization_type", "rounding",
                "schedule_offset", "quantize_weight_in_forward"}),
      switched("eigenvalue", "a part of quantisation-aware training",
               {"verbose", "max_iter", "tol", "stability", "gas_boundary_resolution", "layer_name",
                "layer_num"}),
      compression_training(),
      not_built("weight_quantization", Kind::kAny, "{}", "quantised weights"),
  };
}

std::vector<Field> all_sections() {
  std::vector<Field> out = batch_fields();
  const auto add = [&](std::vector<Field> fields) {
    for (Field& field : fields) out.push_back(std::move(field));
  };
  add(toplevel_fields());
  add(optimizer_sections());
  add({model_section()});
  add(run_sections());
  add(precision_sections());
  add({zero_section()});
  add(monitor_sections());
  add(deepspeed_sections());
  return out;
}

}  // namespace hgt
