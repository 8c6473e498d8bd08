#pragma once

#include "hgtrain/arch/model_spec.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {

struct Config;

/// The plan of a rank for a model. `unit_elements` as in parallel/rank_plan.h.
RankPlan plan_rank(const Config& config, const ParameterTable& table, int rank = 0, int ranks = 1,
                   std::int64_t unit_elements = 0);
/// The same for a place in a layout, if a step has `micro_batches`.
RankPlan plan_rank(const Config& config, const ParameterTable& table, const Layout& layout,
                   const Coordinates& at, std::int64_t micro_batches);

/// The parameter table of each tensor rank. Throws what parameter_table() throws.
ParameterTable rank_table(const Config& config);
/// The model with the sizes of a tensor rank's part; on a GPU, its vocabulary is padded.
ModelConfig rank_model(const Config& config);
/// The multiple to which the config's device pads each part of the vocabulary in memory. Files and
/// losses do not see the padding.
std::int64_t vocabulary_unit(const Config& config);

/// The rank's place in its tensor-parallel group.
inline TensorRank tensor_rank(const RankPlan& plan) {
  return {plan.at.tensor, plan.layout.tensor_size};
}

}  // namespace hgt
