#include "hgtrain/parallel/layout.h"

#include <fmt/format.h>

#include "hgtrain/base/checked.h"

namespace hgt {

int Layout::rank_of(const Coordinates& at) const {
  return (at.pipeline * data_size + at.data) * tensor_size + at.tensor;
}

Coordinates Layout::coordinates_of(int rank) const {
  return {rank / (tensor_size * data_size), rank / tensor_size % data_size, rank % tensor_size};
}

Layout make_layout(const ParallelismConfig& config, int world_size) {
  const auto size = [](std::int64_t value, const char* what) {
    if (value < 1)
      throw Error(ErrorKind::kConfig, fmt::format("{} = {} is not positive", what, value));
    return checked_cast<int>(value, what, ErrorKind::kConfig);
  };
  Layout layout;
  layout.tensor_size = size(config.tensor_parallel_size, "tensor_parallel_size");
  layout.pipeline_size = size(config.pipeline_parallel_size, "pipeline_parallel_size");
  const std::int64_t model = checked_mul(layout.tensor_size, layout.pipeline_size,
                                         "model-parallel size", ErrorKind::kConfig);
  const std::int64_t data =
      config.data_parallel_size > 0 ? config.data_parallel_size : world_size / model;
  if (data * model != world_size)
    throw Error(
        ErrorKind::kConfig,
        fmt::format("{} workers cannot be laid out as data x tensor x pipeline = {} x {} x {}",
                    world_size, data, layout.tensor_size, layout.pipeline_size),
        fmt::format("leave data_parallel_size out, and start a multiple of {} workers", model));
  layout.data_size = size(data, "data_parallel_size");
  return layout;
}

}  // namespace hgt
