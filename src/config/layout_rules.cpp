#include "hgtrain/config/layout_rules.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/config/config.h"
#include "hgtrain/config/model_family.h"

namespace hgt {
namespace {

std::string stages_text(const ParallelismConfig& p) {
  if (p.virtual_pipeline_stages > 1)
    return fmt::format("{} pipeline stages of {} virtual stages each", p.pipeline_parallel_size,
                       p.virtual_pipeline_stages);
  return fmt::format("{} pipeline stage{}", p.pipeline_parallel_size,
                     p.pipeline_parallel_size == 1 ? "" : "s");
}

/// Each rank gets two of 2 `size` equal chunks of a sequence.
std::string context_misfit(std::int64_t seq_length, std::int64_t size) {
  if (size == 1 || seq_length % (2 * size) == 0) return "";
  return fmt::format(
      "parallelism.context_parallel_size = {} does not fit training.seq_length = {}: each worker "
      "gets two of {} equal chunks of a sequence",
      size, seq_length, 2 * size);
}

LayoutProblem schedule_misfit(const ParallelismConfig& p) {
  const bool interleaved = p.pipeline_schedule == "interleaved";
  const std::string schedule = "parallelism.pipeline_schedule";
  if (interleaved && p.pipeline_parallel_size < 2)
    return {schedule, "the schedule interleaved needs a pipeline of at least 2 stages"};
  if (interleaved && p.virtual_pipeline_stages < 2)
    return {schedule,
            "the schedule interleaved needs parallelism.virtual_pipeline_stages of at least 2"};
  if (!interleaved && p.virtual_pipeline_stages > 1)
    return {"parallelism.virtual_pipeline_stages",
            fmt::format("parallelism.virtual_pipeline_stages = {} needs the schedule interleaved",
                        p.virtual_pipeline_stages)};
  return {};
}

}  // namespace

std::string tensor_misfit(const ModelConfig& model, std::int64_t size, const KeyName& name) {
  const std::int64_t heads = model.num_attention_heads, keys = model.num_key_value_heads;
  std::vector<std::string> multiples;
  const auto must_divide = [&](const char* key, std::int64_t value) {
    if (size < 1 || value % size != 0)
      multiples.push_back(
          fmt::format("{} = {}", name ? name(key) : family_key(family_of(model), key), value));
  };
  must_divide("num_attention_heads", heads);
  must_divide("intermediate_size", model.intermediate_size);
  std::vector<std::string> needs;
  if (!multiples.empty())
    needs.push_back(fmt::format("must divide {}", fmt::join(multiples, " and ")));
  if (size >= 1 && keys % size != 0 && size % keys != 0 && keys != heads)
    needs.push_back(
        fmt::format("must divide num_key_value_heads = {} or be a multiple of it", keys));
  if (needs.empty()) return "";
  return fmt::format("parallelism.tensor_parallel_size = {} does not fit the model: it {}", size,
                     fmt::join(needs, ", and "));
}

std::string pipeline_misfit(const Config& config) {
  const ParallelismConfig& p = config.parallelism;
  const std::int64_t layers = config.model.num_hidden_layers;
  if (!p.pipeline_layer_split.empty() ||
      p.pipeline_parallel_size <= (layers + 2) / p.virtual_pipeline_stages)
    return "";
  return fmt::format(
      "a model of {} layer{} cannot be split into {}: each has a layer, the embedding or the head, "
      "unless parallelism.pipeline_layer_split leaves some without",
      layers, layers == 1 ? "" : "s", stages_text(p));
}

std::string layer_split_misfit(const Config& config) {
  const ParallelismConfig& p = config.parallelism;
  const std::vector<std::int64_t>& split = p.pipeline_layer_split;
  if (split.empty()) return "";
  const std::int64_t layers = config.model.num_hidden_layers;
  std::int64_t sum = 0;
  for (const std::int64_t own : split) sum += std::min(own, layers + 1);  // no sum can overflow
  const std::int64_t parts = p.pipeline_parallel_size * p.virtual_pipeline_stages;
  if (std::ssize(split) == parts && sum == layers) return "";
  return fmt::format(
      "parallelism.pipeline_layer_split = [{}] does not split {} layer{} into {}: {}",
      fmt::join(split, ", "), layers, layers == 1 ? "" : "s", stages_text(p),
      std::ssize(split) != parts ? fmt::format("it has {} number{}, not {}", split.size(),
                                               split.size() == 1 ? "" : "s", parts)
      : sum > layers             ? fmt::format("its sum is more than {}", layers)
                                 : fmt::format("its sum is {}", sum));
}

std::vector<LayoutProblem> layout_problems(const Config& config, const KeyName& name) {
  const ParallelismConfig& p = config.parallelism;
  std::vector<LayoutProblem> out;
  const auto add = [&](const char* key, std::string message) {
    if (!message.empty()) out.push_back({key, std::move(message)});
  };
  const ModelConfig& model = config.model;
  if (model.num_attention_heads > 0 && model.intermediate_size > 0 && model.num_key_value_heads > 0)
    add("parallelism.tensor_parallel_size", tensor_misfit(model, p.tensor_parallel_size, name));
  add("parallelism.context_parallel_size",
      context_misfit(config.training.seq_length, p.context_parallel_size));
  if (LayoutProblem schedule = schedule_misfit(p); !schedule.message.empty())
    out.push_back(std::move(schedule));
  if (model.num_hidden_layers > 0) {
    add("parallelism.pipeline_parallel_size", pipeline_misfit(config));
    add("parallelism.pipeline_layer_split", layer_split_misfit(config));
  }
  if (config.zero.stage >= 2 && p.pipeline_parallel_size > 1)
    add("zero_optimization.stage",
        "ZeRO stages 2 and 3 cannot be combined with pipeline parallelism");
  return out;
}

}  // namespace hgt
