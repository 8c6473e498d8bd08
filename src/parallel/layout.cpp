#include "hgtrain/parallel/layout.h"

#include <fmt/format.h>

#include "hgtrain/base/checked.h"
#include "hgtrain/config/parallelism_config.h"

namespace hgt {

int Layout::rank_of(const Coordinates& at) const {
  return (at.pipeline * group_size() + group_rank(at)) * tensor_size + at.tensor;
}

Coordinates Layout::coordinates_of(int rank) const {
  const int in_group = rank / tensor_size % group_size();
  return {rank / (tensor_size * group_size()), in_group / context_size, in_group % context_size,
          rank % tensor_size};
}

Layout make_layout(const ParallelismConfig& config, int world_size) {
  const auto size = [](std::int64_t value, const char* what) {
    if (value < 1)
      throw Error(ErrorKind::kConfig, fmt::format("{} = {} is not positive", what, value));
    return checked_cast<int>(value, what, ErrorKind::kConfig);
  };
  Layout layout;
  layout.tensor_size = size(config.tensor_parallel_size, "tensor_parallel_size");
  layout.context_size = size(config.context_parallel_size, "context_parallel_size");
  layout.pipeline_size = size(config.pipeline_parallel_size, "pipeline_parallel_size");
  layout.virtual_stages = size(config.virtual_pipeline_stages, "virtual_pipeline_stages");
  std::int64_t model = 1;
  for (const int axis : {layout.tensor_size, layout.context_size, layout.pipeline_size})
    model = checked_mul(model, axis, "model-parallel size", ErrorKind::kConfig);
  const std::int64_t data =
      config.data_parallel_size > 0 ? config.data_parallel_size : world_size / model;
  if (data * model != world_size)
    throw Error(
        ErrorKind::kConfig,
        fmt::format(
            "{} workers cannot be laid out as data x context x tensor x pipeline = {} x {} x {} x "
            "{}",
            world_size, data, layout.context_size, layout.tensor_size, layout.pipeline_size),
        fmt::format("leave data_parallel_size out, and start a multiple of {} workers", model));
  layout.data_size = size(data, "data_parallel_size");
  return layout;
}

}  // namespace hgt
