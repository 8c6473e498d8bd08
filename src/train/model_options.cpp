#include "hgtrain/train/model_options.h"

#include <vector>

#include "hgtrain/arch/activations.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

Model::Options options_of(const Config& config, const std::vector<ActivationSizes>& ranges) {
  const ActivationSizes& sizes =
      ranges.front();  // used only for fields that are equal for all ranges
  Model::Options out{.max_batch = sizes.batch,
                     .max_seq_length = sizes.seq_length,
                     .ranges = {},
                     .split = sizes.split,
                     .seed = static_cast<std::uint64_t>(config.training.seed),
                     .recompute = sizes.recompute,
                     .recomputed_layers = sizes.recomputed_layers,
                     .logit_rows = sizes.logit_rows};
  for (const ActivationSizes& range : ranges) out.ranges.push_back({range.blocks, range.slots});
  return out;
}

}  // namespace

Model::Options model_options(const Config& config) {
  Model::Options options = options_of(config, {activation_sizes(config)});
  options.logit_rows = planned_logit_rows(config);
  return options;
}

Model::Options model_options(const Config& config, const StepShape& shape, const Groups& groups) {
  Model::Options options = options_of(config, activation_sizes(config, shape));
  options.tensor = groups.tensor;
  options.context = groups.context;
  options.split_rows = config.parallelism.sequence_parallel;
  return options;
}

}  // namespace hgt
