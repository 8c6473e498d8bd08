// DeepSpeed's zero_optimization.
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;
using Z = ZeroConfig;

const In zero_key{&Config::zero};

/// A limit in elements. HF's Trainer sets "auto" to a number that suits PyTorch's allocator.
Field limit(std::string name, std::int64_t Z::*member, std::string help,
            std::vector<std::string> aliases = {}) {
  return used(std::move(name), zero_key(member), std::move(help))
      .elements()
      .auto_is(std::to_string(Z().*member), "DeepSpeed's default")
      .aka(std::move(aliases));
}

Field elements(std::string name, std::string help, std::vector<std::string> aliases = {}) {
  return ignored(std::move(name), Kind::kInteger, std::move(help))
      .elements()
      .aka(std::move(aliases));
}

/// `cpu_offload: true` in old files.
Field old_offload(std::string name, const std::string& target) {
  Field out =
      ignored(std::move(name), Kind::kBool, "old spelling of " + target + ".device = \"cpu\"");
  out.key_class = KeyClass::kUsed;
  out.moves = [path = "zero_optimization." + target + ".device"](const Json& value) {
    const bool on = value == true || value == 1 || value == "true";
    return std::vector<Moved>{{on ? path : "", "\"cpu\""}};
  };
  return out;
}

Field device(std::string Z::*member, int stage) {
  return used("device", zero_key(member),
              "none: on the device that computes; cpu: in the CPU's memory, where training on the "
              "CPU has it anyway")
      .one_of({{"none"},
               {"cpu"},
               {"nvme", KeyClass::kNotBuilt, "use \"cpu\", the CPU's memory, or \"none\""}})
      .from_stage(stage);
}

Field offload_param() {
  Field out = section(
      "offload_param", "parameters outside the device (stage 3)",
      {
          device(&Z::offload_param, 3),
          ignored("nvme_path", Kind::kText, "an option of offloading to NVMe"),
          ignored("buffer_count", Kind::kInteger, "an option of offloading to NVMe").at_least(0),
          ignored("buffer_size", Kind::kInteger, "an option of offloading to NVMe").elements(),
          ignored("max_in_cpu", Kind::kInteger, "an option of offloading to NVMe").elements(),
          ignored("max_in_nvme", Kind::kInteger, "an option in old files"),
          ignored("pin_memory", Kind::kBool, "offloaded memory is always page-locked"),
      });
  out.may_be_false = true;
  return out;
}

Field offload_optimizer() {
  Field out = section(
      "offload_optimizer", "optimizer outside the device",
      {
          device(&Z::offload_optimizer, 0),
          ignored("nvme_path", Kind::kText, "an option of offloading to NVMe"),
          ignored("buffer_count", Kind::kInteger, "an option of offloading to NVMe").at_least(0),
          ignored("buffer_size", Kind::kInteger, "an option in old files"),
          ignored("pin_memory", Kind::kBool, "offloaded memory is always page-locked"),
          ignored("pipeline_read", Kind::kBool, "an option of offloading to NVMe"),
          ignored("pipeline_write", Kind::kBool, "an option of offloading to NVMe"),
          ignored("pipeline", Kind::kBool, "an option of offloading to NVMe"),
          ignored("fast_init", Kind::kBool, "an option of offloading to NVMe"),
          not_built("ratio", Kind::kNumber, "1.0", "share that is offloaded")
              .at_least(0)
              .at_most(1)
              .instead("remove it: device = \"cpu\" offloads the whole state"),
          not_built("super_offload", Kind::kBool, "false", "SuperOffload"),
          ignored("cpuadam_cores_perc", Kind::kNumber, "an option of DeepSpeed's SuperOffload"),
      });
  out.may_be_false = true;
  return out;
}

std::vector<Field> variants() {
  const auto off = [](std::string name, std::string help) {
    return not_built(std::move(name), Kind::kBool, "false", std::move(help)).from_stage(3);
  };
  const std::string no_groups =
      "remove it: shards span all workers; stage 2 keeps all weights on each, and gathers less";
  const std::string no_quantizing =
      "remove it; bf16.enabled or fp16.enabled halves the gathered weights";
  return {
      not_built("zero_hpz_partition_size", Kind::kInteger, "1",
                "ZeRO++: second copy within a machine")
          .at_least(0)
          .from_stage(3)
          .instead(no_groups),
      off("zero_quantized_weights", "ZeRO++").instead(no_quantizing),
      off("zero_quantized_gradients", "ZeRO++").instead("remove it: gradients are summed in fp32"),
      ignored("zero_quantized_nontrainable_weights", Kind::kBool, "all weights are trained"),
      not_built("zeropp_loco_param", Kind::kAny, "null", "ZeRO++: LoCo")
          .instead("remove it: gradients are summed in fp32"),
      not_built("mics_shard_size", Kind::kInteger, "0", "MiCS: shards within a group")
          .from_stage(3)
          .instead(no_groups),
      off("mics_hierarchical_params_gather", "MiCS").instead(no_groups),
      not_built("zenflow", Kind::kObject, "null", "ZenFlow")
          .instead("remove it; offload_optimizer.device = \"cpu\" offloads the optimizer's state"),
  };
}

std::vector<Field> ignored_zero_keys() {
  std::vector<Field> out = {ignored("leaf_module", Kind::kAny, "PyTorch modules")};
  for (const char* name :
       {"allgather_partitions", "use_multi_rank_bucket_allreduce", "load_from_fp32_weights",
        "elastic_checkpoint", "ignore_unused_parameters", "round_robin_gradients",
        "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential",
        "memory_efficient_linear", "override_module_apply", "pipeline_loading_checkpoint",
        "log_trace_cache_warnings", "enable_sanity_checks", "save_muon_momentum_buffer_in_memory",
        "grad_hooks", "cpu_offload_use_pin_memory", "parameter_alignment"})
    out.push_back(ignored(name, Kind::kBool, "an option of how DeepSpeed works on PyTorch"));
  out.push_back(elements("stage3_module_granularity_threshold",
                         "an option of how DeepSpeed works on PyTorch",
                         {"module_granularity_threshold"}));
  return out;
}

}  // namespace

Field zero_section() {
  std::vector<Field> fields = {
      used("stage", zero_key(&Z::stage),
           "what is split among the workers: 0 nothing, 1 optimizer state, 2 gradients too, 3 "
           "parameters too")
          .at_least(0)
          .at_most(3),
      ignored("contiguous_gradients", Kind::kBool, "gradients always lie side by side"),
      ignored("reduce_scatter", Kind::kBool, "stages 1 to 3 always reduce-scatter gradients"),
      limit("reduce_bucket_size", &Z::reduce_bucket_size,
            "largest number of gradients in one sum, but at least those of a block (stages 1 to 3)")
          .from_stage(1),
      limit("allgather_bucket_size", &Z::allgather_bucket_size,
            "largest number of parameters in one all-gather, but at least those of a block (stages "
            "1 to 3)")
          .from_stage(1),
      ignored("compute_grad_norm", Kind::kBool, "the norm is computed at every step"),
      ignored("overlap_comm", Kind::kBool, "gradients are always reduced during backward"),
      elements("sub_group_size", "updates need no temporary memory"),
      limit("stage3_prefetch_bucket_size", &Z::prefetch_bucket_size,
            "largest number of parameters that are gathered before they are needed, but at least a "
            "block's; 0: none (stage 3)",
            {"prefetch_bucket_size"})
          .from_stage(3),
      elements("stage3_param_persistence_threshold",
               "small parameters are gathered together with their block",
               {"param_persistence_threshold"})
          .auto_derived(),
      elements("stage3_model_persistence_threshold",
               "small parameters are gathered together with their block",
               {"model_persistence_threshold"}),
      limit("stage3_max_live_parameters", &Z::max_live_parameters,
            "largest number of parameters that are gathered at a time, but at least a block's and "
            "those of tied embeddings (stage 3)",
            {"max_live_parameters"})
          .from_stage(3),
      elements("stage3_max_reuse_distance", "a block is released when its memory is needed",
               {"max_reuse_distance"}),
      ignored("stage3_gather_16bit_weights_on_model_save", Kind::kBool,
              "checkpoints hold whole tensors")
          .aka({"gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save"}),
      refused("legacy_stage1", "DeepSpeed refuses it as well", "remove it").off_if("false"),
      refused("aio", "it belongs outside zero_optimization", "move aio to the top level"),
      old_offload("cpu_offload", "offload_optimizer"),
      old_offload("cpu_offload_param", "offload_param"),
      offload_param(),
      offload_optimizer(),
  };
  fields[0].refuses_auto = true;
  for (auto make : {variants, ignored_zero_keys})
    for (Field& field : make()) fields.push_back(std::move(field));
  Field out = section("zero_optimization", "ZeRO: shared optimizer state, gradients and parameters",
                      std::move(fields));
  out.shorthand = [](const Json& value) {
    return value.is_boolean() ? Json{{"stage", value == true ? 1 : 0}}.dump() : "";
  };
  return out;
}

}  // namespace hgt
