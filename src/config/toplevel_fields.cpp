// The keys of a DeepSpeed file that are outside any section.
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Field> communication_fields() {
  const std::vector<Choice> types = {
      {"fp32"},
      {"fp16", KeyClass::kNotBuilt, "remove it: gradients are reduced in fp32"},
      {"bf16", KeyClass::kNotBuilt, "remove it: gradients are reduced in fp32"}};
  return {
      ignored("prescale_gradients", Kind::kBool,
              "losses are weighted before backward, so sums need no scaling"),
      ignored("gradient_predivide_factor", Kind::kNumber,
              "losses are weighted before backward, so sums need no scaling")
          .above(0),
      ignored("gradient_allreduce_op", Kind::kText,
              "mean: the loss is divided by the token count of the whole batch")
          .one_of(
              {{"mean"},
               {"sum", KeyClass::kNotBuilt, "use mean, and multiply the learning rate instead"}}),
      used(
          "communication_data_type", [](Config& c) -> Slot { return &c.communication_data_type; },
          "the type in which data- and context-parallel workers send each other gradients, which "
          "they sum "
          "in fp32 and round once; fp16 needs fp16 training")
          .one_of({{"fp32"}, {"bf16"}, {"fp16"}}),
      ignored("seq_parallel_communication_data_type", Kind::kText,
              "the type in which DeepSpeed's sequence parallelism communicates")
          .one_of(types),
      not_built("sparse_gradients", Kind::kBool, "false", "sparse gradients of the embedding"),
      ignored("disable_allgather", Kind::kBool, "DeepSpeed does not read it either"),
  };
}

std::vector<Field> ignored_fields() {
  return {
      ignored("memory_breakdown", Kind::kBool, "memory is in metrics.jsonl"),
      ignored("wall_clock_breakdown", Kind::kBool, "times are in metrics.jsonl"),
      ignored("dump_state", Kind::kBool, "`hgtrain config show` prints the resolved config"),
      ignored("zero_allow_untested_optimizer", Kind::kBool, "every optimizer is tested"),
      ignored("zero_force_ds_cpu_optimizer", Kind::kBool,
              "the optimizer runs on the device of the parameters"),
      ignored("vocabulary_size", Kind::kInteger, "see model.vocab_size"),
      ignored("graph_harvesting", Kind::kBool, "CUDA graphs of PyTorch"),
      ignored("log_level", Kind::kText, "the level of DeepSpeed's logger")
          .one_of({{"debug"}, {"info"}, {"warning"}, {"error"}, {"critical"}}),
      not_built("use_data_before_expert_parallelism", Kind::kBool, "false",
                "order of the axes for experts"),
      ignored("allgather_size", Kind::kInteger, "a bucket size in old files").elements(),
      ignored("cuda_visible_devices", Kind::kAny, "set CUDA_VISIBLE_DEVICES in the environment"),
      ignored("monitor_config", Kind::kAny, "not a key of DeepSpeed's"),
      ignored("comms_config", Kind::kAny, "not a key of DeepSpeed's"),
      refused("load_universal_checkpoint", "DeepSpeed does not read it here",
              "did you mean checkpoint.load_universal?")
          .aka({"universal_checkpoint"}),
      ignored("disable_python_gc", Kind::kBool, "there is no Python"),
  };
}

}  // namespace

std::vector<Field> batch_fields() {
  const In in{&Config::batch};
  using B = BatchConfig;
  std::vector<Field> out = {
      used("train_batch_size", in(&B::train_batch_size),
           "samples of an optimizer step, over all workers")
          .at_least(1)
          .at_most(kMaxBatch)
          .auto_derived(),
      used("train_micro_batch_size_per_gpu", in(&B::micro_batch_size),
           "samples that a worker computes at once")
          .at_least(1)
          .at_most(kMaxBatch)
          .auto_derived()
          .aka({"micro_batch_size"}),
      used("gradient_accumulation_steps", in(&B::gradient_accumulation_steps),
           "micro-batches of a worker in an optimizer step")
          .at_least(1)
          .at_most(kMaxBatch)
          .auto_derived(),
      not_built("managed_gradient_accumulation", Kind::kBool, "true",
                "the caller ends the accumulation"),
      ignored("dataloader_drop_last", Kind::kBool, "every batch is full"),
      moved("data_parallel_size", Kind::kInteger, "parallelism.data_parallel_size"),
      moved("pipe_parallel_size", Kind::kInteger, "parallelism.pipeline_parallel_size"),
      moved("model_parallel_size", Kind::kInteger, "parallelism.tensor_parallel_size"),
      moved("sequence_parallel_size", Kind::kInteger, "parallelism.sequence_parallel_size"),
  };
  for (int i = 0; i < 3; ++i) out[i].default_varies = true;
  out.back().key_class = KeyClass::kNotBuilt;  // like the key that it moves to
  return out;
}

std::vector<Field> toplevel_fields() {
  Field steps_per_print = used(
      "steps_per_print", [](Config& c) -> Slot { return &c.steps_per_print; },
      "steps between console lines; a step that ends a minute after the last line has one, too; "
      "Infinity: none");
  steps_per_print.infinity_allowed = true;
  std::vector<Field> out = {
      used(
          "gradient_clipping", [](Config& c) -> Slot { return &c.gradient_clipping; },
          "largest L2 norm of all gradients; 0: off")
          .at_least(0)
          .auto_is("1.0"),
      std::move(steps_per_print).at_least(0),
  };
  for (auto make : {communication_fields, ignored_fields})
    for (Field& field : make()) out.push_back(std::move(field));
  return out;
}

}  // namespace hgt
