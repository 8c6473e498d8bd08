#include "hgtrain/arch/rank_plan.h"

#include "hgtrain/arch/pipeline_split.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

bool is_tied(const ParameterTable& table) {
  return table.find(table.num_blocks() - 1, Role::kOutput) == nullptr;
}

std::vector<Range> stages_of(const Config& config) {
  if (config.parallelism.pipeline_parallel_size == 1) return {};
  return pipeline_blocks(config);
}

}  // namespace

RankPlan plan_rank(const Config& config, const ParameterTable& table, int rank, int ranks,
                   std::int64_t unit_elements) {
  return plan_rank(config, table.blocks(), is_tied(table), rank, ranks, unit_elements,
                   stages_of(config));
}

RankPlan plan_rank(const Config& config, const ParameterTable& table, const Layout& layout,
                   const Coordinates& at, std::int64_t micro_batches) {
  return plan_rank(config, table.blocks(), is_tied(table), layout, at, micro_batches, 0,
                   stages_of(config));
}

ParameterTable rank_table(const Config& config) {
  return parameter_table(config.model, config.training.no_decay_norms_and_biases,
                         static_cast<int>(config.parallelism.tensor_parallel_size),
                         vocabulary_unit(config));
}

ModelConfig rank_model(const Config& config) {
  return tensor_part(config.model, static_cast<int>(config.parallelism.tensor_parallel_size),
                     vocabulary_unit(config));
}

std::int64_t vocabulary_unit(const Config& config) {
  return config.hardware.device == "cuda" ? cuda::kVocabularyUnit : 1;
}

}  // namespace hgt
