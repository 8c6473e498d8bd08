#include "hgtrain/arch/rank_plan.h"

namespace hgt {

RankPlan plan_rank(const Config& config, const ParameterTable& table, int rank, int ranks,
                   std::int64_t unit_elements) {
  const bool tied = table.find(table.num_blocks() - 1, Role::kOutput) == nullptr;
  return plan_rank(config, table.blocks(), tied, rank, ranks, unit_elements);
}

}  // namespace hgt
