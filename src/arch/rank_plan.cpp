#include "hgtrain/arch/rank_plan.h"

#include "hgtrain/arch/pipeline_split.h"
#include "hgtrain/config/config.h"

namespace hgt {

RankPlan plan_rank(const Config& config, const ParameterTable& table, int rank, int ranks,
                   std::int64_t unit_elements) {
  const bool tied = table.find(table.num_blocks() - 1, Role::kOutput) == nullptr;
  const bool has_stages = config.parallelism.pipeline_parallel_size > 1;
  return plan_rank(config, table.blocks(), tied, rank, ranks, unit_elements,
                   has_stages ? pipeline_blocks(config) : std::vector<Range>());
}

ParameterTable rank_table(const Config& config) {
  return parameter_table(config.model, config.training.no_decay_norms_and_biases,
                         static_cast<int>(config.parallelism.tensor_parallel_size));
}

}  // namespace hgt
