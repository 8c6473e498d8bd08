#include "hgtrain/parallel/layout.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/base/checked.h"
#include "hgtrain/config/model_copies.h"

namespace hgt {

int Layout::rank_of(const Coordinates& at) const {
  return (at.pipeline * group_size() + group_rank(at)) * tensor_size + at.tensor;
}

Coordinates Layout::coordinates_of(int rank) const {
  const int in_group = rank / tensor_size % group_size();
  return {rank / (tensor_size * group_size()), in_group / context_size, in_group % context_size,
          rank % tensor_size};
}

std::string Layout::position_text(int rank) const {
  if (data_size == world_size()) return "";
  const Coordinates at = coordinates_of(rank);
  std::vector<std::string> places;
  const auto add = [&](const char* axis, int size, int index) {
    if (size > 1) places.push_back(fmt::format("{} {}", axis, index));
  };
  add("stage", pipeline_size, at.pipeline);
  add("data rank", data_size, at.data);
  add("context rank", context_size, at.context);
  add("tensor rank", tensor_size, at.tensor);
  return fmt::format("{}", fmt::join(places, ", "));
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
  layout.data_size = static_cast<int>(model_copies(config, world_size));
  if (layout.data_size == 0) {
    const std::int64_t model = workers_of_model(config), asked = config.data_parallel_size;
    throw Error(
        ErrorKind::kConfig,
        fmt::format(
            "{} workers cannot be laid out as data x context x tensor x pipeline = {} x {} x {} x "
            "{}",
            world_size, asked > 0 ? asked : world_size / model, layout.context_size,
            layout.tensor_size, layout.pipeline_size),
        fmt::format("leave data_parallel_size out, and start a multiple of {} workers", model));
  }
  return layout;
}

}  // namespace hgt
