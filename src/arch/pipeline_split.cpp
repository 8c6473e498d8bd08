#include "hgtrain/arch/pipeline_split.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/memory.h"
#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

using Layers = std::vector<std::int64_t>;

std::string stages_text(std::int64_t stages, std::int64_t virtual_stages) {
  if (virtual_stages > 1)
    return fmt::format("{} pipeline stages of {} virtual stages each", stages, virtual_stages);
  return stages == 1 ? "1 pipeline stage" : fmt::format("{} pipeline stages", stages);
}

/// The layers of each stage with the smallest maximum of `flops` (by block) over the stages. Of
/// equal splits, the one whose early stages have fewer layers: they hold more micro-batches.
Layers balanced(const std::vector<double>& flops, std::int64_t layers, std::int64_t stages) {
  const auto fewest = [&](std::int64_t stage) { return stage == 0 || stage + 1 == stages ? 0 : 1; };
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> before_block(1, 0.0);
  for (const double block : flops) before_block.push_back(before_block.back() + block);
  const auto cost = [&](std::int64_t stage, Range part) {
    const std::int64_t begin = stage == 0 ? 0 : part.begin + 1;
    const std::int64_t end = stage + 1 == stages ? layers + 2 : part.end + 1;
    return before_block[index(end)] - before_block[index(begin)];
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  // best[s][l]: the smallest maximum of the first s stages with l layers; taken[s][l]: of the last.
  std::vector best(index(stages) + 1, std::vector<double>(index(layers) + 1, kNever));
  std::vector taken(index(stages) + 1, Layers(index(layers) + 1, 0));
  best[0][0] = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    for (std::int64_t before = 0; before <= layers; ++before)
      for (std::int64_t own = fewest(stage); before + own <= layers; ++own) {
        const double most =
            std::max(best[index(stage)][index(before)], cost(stage, {before, before + own}));
        double& known = best[index(stage) + 1][index(before + own)];
        if (most >= known) continue;
        known = most;
        taken[index(stage) + 1][index(before + own)] = own;
      }
  Layers out(index(stages));
  for (std::int64_t stage = stages, left = layers; stage-- > 0; left -= out[index(stage)])
    out[index(stage)] = taken[index(stage) + 1][index(left)];
  return out;
}

/// The same for an interleaved pipeline, whose layers count as equal: each layer goes to the stage
/// with the fewest operations so far, and there to the virtual stage with the fewest. Of equal
/// ones, the last: it holds fewer micro-batches.
Layers interleaved(const std::vector<double>& flops, std::int64_t layers, std::int64_t stages,
                   std::int64_t virtual_stages) {
  const double head = flops.back();
  const double layer = layers == 0 ? 0
                                   : (std::accumulate(flops.begin(), flops.end(), 0.0) - head) /
                                         static_cast<double>(layers);
  const auto count = static_cast<std::size_t>(stages * virtual_stages),
             ranks = static_cast<std::size_t>(stages);
  Layers out(count, 1);
  out.front() = out.back() = 0;
  const auto cost = [&](std::size_t part) {
    return static_cast<double>(out[part]) * layer + (part + 1 == count ? head : 0);
  };
  const auto cost_of_stage = [&](std::size_t stage) {
    std::int64_t own = 0;
    for (std::size_t part = stage; part < count; part += ranks) own += out[part];
    return static_cast<double>(own) * layer + (stage + 1 == ranks ? head : 0);
  };
  for (auto left = layers - static_cast<std::int64_t>(count) + 2; left > 0; --left) {
    std::size_t stage = ranks - 1;
    for (std::size_t other = stage; other-- > 0;)
      if (cost_of_stage(other) < cost_of_stage(stage)) stage = other;
    std::size_t part = count - ranks + stage;
    for (std::size_t other = part; other >= ranks;)
      if (cost(other -= ranks) < cost(part)) part = other;
    ++out[part];
  }
  return out;
}

void require_fit(const Layers& split, std::int64_t layers, std::int64_t stages,
                 std::int64_t virtual_stages) {
  std::int64_t left = layers;
  for (const std::int64_t own : split) left -= std::min(own, layers + 1);  // no sum can overflow
  bool idle = false;
  for (std::size_t stage = 1; stage + 1 < split.size(); ++stage) idle |= split[stage] == 0;
  if (std::ssize(split) == stages * virtual_stages && left == 0 && !idle) return;
  const bool fits_other =
      std::ssize(split) != stages * virtual_stages && left == 0 && virtual_stages == 1;
  throw Error(
      ErrorKind::kConfig,
      fmt::format("parallelism.pipeline_layer_split = [{}] does not split {} layers into {}{}",
                  fmt::join(split, ", "), layers, stages_text(stages, virtual_stages),
                  idle ? " of at least one layer each" : ""),
      fits_other ? fmt::format("--parallelism.pipeline_parallel_size {}", split.size())
                 : "leave it out for a balanced split");
}

void require_layers(std::int64_t layers, std::int64_t stages, std::int64_t virtual_stages) {
  if (stages <= (layers + 2) / virtual_stages) return;
  const std::int64_t fewer = (layers + 2) / stages;
  throw Error(ErrorKind::kConfig,
              fmt::format("a model of {} layers cannot be split into {}", layers,
                          stages_text(stages, virtual_stages)),
              fewer >= 2 ? fmt::format("parallelism.virtual_pipeline_stages of at most {}: each "
                                       "has a layer, the embedding or the head",
                                       fewer)
                         : fmt::format("parallelism.pipeline_parallel_size of at most {}: each "
                                       "stage has a layer, the embedding or the head",
                                       (layers + 2) / virtual_stages));
}

}  // namespace

std::vector<Range> pipeline_blocks(const Config& config) {
  const std::int64_t layers = config.model.num_hidden_layers;
  const std::int64_t stages = config.parallelism.pipeline_parallel_size,
                     virtual_stages = config.parallelism.virtual_pipeline_stages;
  require_layers(layers, stages, virtual_stages);
  Layers split = config.parallelism.pipeline_layer_split;
  const std::vector<double> flops = block_flops(config.model, config.training.seq_length);
  if (!split.empty())
    require_fit(split, layers, stages, virtual_stages);
  else if (virtual_stages == 1)
    split = balanced(flops, layers, stages);
  else
    split = interleaved(flops, layers, stages, virtual_stages);
  std::vector<Range> out;
  std::int64_t begin = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const bool last = stage + 1 == split.size();
    const std::int64_t end = begin + split[stage] + (stage == 0 ? 1 : 0) + (last ? 1 : 0);
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

}  // namespace hgt
