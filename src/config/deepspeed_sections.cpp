// The sections of DeepSpeed's that a native Transformer trainer has little use for: switched off
// they load, switched on they are told.
#include <nlohmann/json.hpp>

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// A section whose `enabled` asks for something that is not built. Its other keys are not looked
/// at.
Field switched(std::string name, const std::string& help, std::string hint = "") {
  Field out = section(std::move(name), help,
                      {not_built("enabled", Kind::kBool, "false", help).instead(std::move(hint))});
  out.open = true;
  return out;
}

/// A section that is refused where it is there with anything in it.
Field without_meaning(std::string name, std::string help) {
  return noticed(std::move(name), Kind::kAny, std::move(help));
}

Field aio() {
  Field out = section("aio", "DeepSpeed's NVMe library", {});
  out.key_class = KeyClass::kNoticed;
  for (const char* name : {"block_size", "queue_depth", "intra_op_parallelism"})
    out.fields.push_back(noticed(name, Kind::kInteger, "of offloading to NVMe"));
  for (const char* name : {"single_submit", "overlap_events", "use_gds"})
    out.fields.push_back(noticed(name, Kind::kBool, "of offloading to NVMe"));
  out.fields[2].aliases = {"thread_count"};
  return out;
}

/// 0 and 1 both mean: not split.
Field tensor_parallel_degree(std::string name) {
  Field out = moved(std::move(name), Kind::kInteger, "parallelism.tensor_parallel_size");
  out.moves = [](const Json& value) {
    return std::vector<Moved>{{"parallelism.tensor_parallel_size", value == 0 ? "1" : ""}};
  };
  return out;
}

Field tensor_parallel() {
  Field out = section("tensor_parallel", "DeepSpeed's AutoTP",
                      {
                          tensor_parallel_degree("autotp_size"),
                          section("tp", "",
                                  {tensor_parallel_degree("tp_size"),
                                   noticed("tp_grain_size", Kind::kInteger, "of AutoTP"),
                                   noticed("mpu", Kind::kAny, "of AutoTP"),
                                   noticed("tp_group", Kind::kAny, "of AutoTP")}),
                          noticed("preset_model", Kind::kText, "of AutoTP"),
                          noticed("partition_config", Kind::kAny, "of AutoTP"),
                          noticed("tp_overlap_comm", Kind::kBool, "of AutoTP"),
                          noticed("dtype", Kind::kText, "of AutoTP"),
                          noticed("injection_policy_tuple", Kind::kAny, "of AutoTP"),
                          noticed("keep_module_on_host", Kind::kBool, "of AutoTP"),
                          noticed("kernel_inject", Kind::kBool, "of AutoTP"),
                      });
  return out;
}

Field pipeline() {
  Field stages = moved("stages", Kind::kInteger, "parallelism.pipeline_parallel_size");
  stages.auto_value = "1";
  return section("pipeline", "DeepSpeed's pipeline engine",
                 {
                     stages,
                     noticed("partition", Kind::kAny, "how layers are dealt to stages"),
                     noticed("seed_layers", Kind::kBool, "every layer has a seed of its own"),
                     not_built("activation_checkpoint_interval", Kind::kInteger, "0",
                               "recompute every so many layers"),
                     noticed("pipe_partitioned", Kind::kBool, "of stages"),
                     noticed("grad_partitioned", Kind::kBool, "of stages"),
                     noticed("use_reentrant", Kind::kBool, "of PyTorch"),
                 });
}

Field elasticity() {
  return section(
      "elasticity", "batch sizes that suit many world sizes",
      {
          not_built("enabled", Kind::kBool, "false", "elastic batch sizes")
              .instead("give the batch sizes themselves"),
          noticed("max_train_batch_size", Kind::kInteger, "of elasticity"),
          noticed("micro_batch_sizes", Kind::kList, "of elasticity"),
          noticed("min_gpus", Kind::kInteger, "of elasticity"),
          noticed("max_gpus", Kind::kInteger, "of elasticity"),
          noticed("num_gpus_per_node", Kind::kInteger, "of elasticity"),
          noticed("model_parallel_size", Kind::kInteger, "of elasticity"),
          noticed("min_time", Kind::kInteger, "of elasticity"),
          noticed("version", Kind::kNumber, "of elasticity"),
          noticed("prefer_larger_batch", Kind::kBool, "of elasticity").aka({"prefer_large_batch"}),
          noticed("ignore_non_elastic_batch_info", Kind::kBool, "of elasticity"),
      });
}

Field data_efficiency() {
  Field sampling = switched("data_sampling", "curriculum sampling, dynamic batching");
  Field routing = switched("data_routing", "random layer-wise token dropping");
  return section("data_efficiency", "DeepSpeed's data efficiency library",
                 {not_built("enabled", Kind::kBool, "false", "DeepSpeed's data efficiency library"),
                  noticed("seed", Kind::kInteger, "see data.seed"), sampling, routing});
}

Field compression_training() {
  std::vector<Field> techniques = {switched("layer_reduction", "fewer layers")};
  for (const char* name : {"weight_quantization", "activation_quantization", "sparse_pruning",
                           "row_pruning", "head_pruning", "channel_pruning"}) {
    techniques.push_back(section(name, "pruning and quantisation",
                                 {switched("shared_parameters", "pruning and quantisation")}));
    techniques.back().open = true;
  }
  return section("compression_training", "pruning and quantisation", std::move(techniques));
}

Field compile() {
  Field out = section("compile", "torch.compile",
                      {not_built("deepcompile", Kind::kBool, "false", "DeepCompile")
                           .instead("there is no PyTorch graph to compile")});
  out.open = true;
  return out;
}

}  // namespace

std::vector<Field> deepspeed_sections() {
  Field sparse_attention = section("sparse_attention", "DeepSpeed leaves it to the model", {});
  sparse_attention.key_class = KeyClass::kNoticed;
  sparse_attention.open = true;
  Field datastates = not_built("datastates_ckpt", Kind::kAny, "false", "DataStates checkpoints")
                         .instead("see checkpoint.async_save");
  return {
      aio(),
      tensor_parallel(),
      pipeline(),
      elasticity(),
      data_efficiency(),
      compile(),
      sparse_attention,
      datastates,
      without_meaning("tp", "see tensor_parallel"),
      switched("expert_parallel", "mixture of experts"),
      switched("nebula", "Azure's checkpoint service", "see checkpoint.async_save"),
      switched("curriculum_learning", "sequence length that grows during training"),
      switched("progressive_layer_drop", "layers dropped at random"),
      switched("hybrid_engine", "DeepSpeed's engine for RLHF"),
      switched("quantize_training", "quantisation-aware training"),
      switched("eigenvalue", "of quantisation-aware training"),
      compression_training(),
      not_built("weight_quantization", Kind::kAny, "{}", "quantised weights"),
      noticed("sequence_parallel", Kind::kAny,
              "not a key of DeepSpeed's: see parallelism.sequence_parallel_size"),
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
