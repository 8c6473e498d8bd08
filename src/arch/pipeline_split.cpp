#include "hgtrain/arch/pipeline_split.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/arch/flops.h"
#include "hgtrain/base/error.h"
#include "hgtrain/config/config.h"
#include "hgtrain/config/layout_rules.h"
#include "hgtrain/parallel/pipeline_time.h"
#include "hgtrain/parallel/rank_plan.h"

namespace hgt {
namespace {

using Layers = std::vector<std::int64_t>;

/// The layers of each stage in the split with the smallest maximum of `flops` (by block) over the
/// stages. Among equal splits, early stages get fewer layers, because they hold more micro-batches.
Layers contiguous(const std::vector<double>& flops, std::int64_t layers, std::int64_t stages) {
  const auto min_layers = [&](std::int64_t stage) {
    return stage == 0 || stage + 1 == stages ? 0 : 1;
  };
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
      for (std::int64_t own = min_layers(stage); before + own <= layers; ++own) {
        const double largest =
            std::max(best[index(stage)][index(before)], cost(stage, {before, before + own}));
        double& known = best[index(stage) + 1][index(before + own)];
        if (largest >= known) continue;
        known = largest;
        taken[index(stage) + 1][index(before + own)] = own;
      }
  Layers out(index(stages));
  for (std::int64_t stage = stages, left = layers; stage-- > 0; left -= out[index(stage)])
    out[index(stage)] = taken[index(stage) + 1][index(left)];
  return out;
}

/// The same for an interleaved pipeline whose layers count as equal: each layer goes to the stage
/// with the fewest operations so far, and there to the virtual stage with the fewest. Among equal
/// ones, the last gets it, because it holds fewer micro-batches.
Layers interleaved(const std::vector<double>& flops, std::int64_t layers, std::size_t stages,
                   std::size_t parts) {
  std::vector<double> of_parts(parts, 0), of_stages(stages, 0);
  Layers out(parts, 0);
  const auto add = [&](std::size_t part, double cost) {
    of_parts[part] += cost;
    of_stages[part % stages] += cost;
  };
  add(0, flops.front());
  add(parts - 1, flops.back());
  const double layer = std::round(std::accumulate(flops.begin() + 1, flops.end() - 1, 0.0) /
                                  static_cast<double>(layers));
  const auto give = [&](std::size_t part) {
    ++out[part];
    add(part, layer);
    --layers;
  };
  for (std::size_t part = 1; part + 1 < parts; ++part) give(part);
  while (layers > 0) {
    std::size_t part = parts - 1;
    for (std::size_t other = part; other-- > 0;) {
      const auto costs = [&](std::size_t i) {
        return std::pair(of_stages[i % stages], of_parts[i]);
      };
      if (costs(other) < costs(part)) part = other;
    }
    give(part);
  }
  return out;
}

/// The operations of the stages and then those of the virtual stages, the most first in each. The
/// longest stage delays every micro-batch, the longest virtual stage every group of them.
std::vector<double> costs_of(const Layers& split, std::size_t stages,
                             const std::vector<double>& flops) {
  std::vector<double> costs(stages, 0);
  auto next = flops.begin();
  for (std::size_t part = 0; part < split.size(); ++part) {
    const bool is_last = part + 1 == split.size();
    const auto end = is_last ? flops.end() : next + split[part] + (part == 0 ? 1 : 0);
    costs.push_back(std::accumulate(next, end, 0.0));
    costs[part % stages] += costs.back();
    next = end;
  }
  const auto parts = costs.begin() + static_cast<std::ptrdiff_t>(stages);
  std::sort(costs.begin(), parts, std::greater());
  std::sort(parts, costs.end(), std::greater());
  return costs;
}

/// Improves a split of layers with different windows, which cost different amounts: moves one layer
/// at a time while that helps.
Layers improved(Layers split, std::size_t stages, const std::vector<double>& flops) {
  std::vector<double> best = costs_of(split, stages, flops);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t from = 0; from < split.size(); ++from)
      for (std::size_t to = 0; to < split.size(); ++to) {
        const bool is_end = from == 0 || from + 1 == split.size();
        if (from == to || split[from] == (is_end ? 0 : 1)) continue;
        --split[from], ++split[to];
        std::vector<double> costs = costs_of(split, stages, flops);
        moved |= costs < best;
        if (costs < best)
          best = std::move(costs);
        else
          ++split[from], --split[to];
      }
  }
  return split;
}

Layers balanced(const Config& config) {
  const std::int64_t layers = config.model.num_hidden_layers;
  const std::int64_t stages = config.parallelism.pipeline_parallel_size,
                     virtual_stages = config.parallelism.virtual_pipeline_stages;
  std::vector<double> flops;  // rounded, so that their sums depend on no order
  for (const BlockTime& block : block_times(config)) flops.push_back(std::round(block.sum()));
  if (virtual_stages == 1) return contiguous(flops, layers, stages);
  const auto ranks = static_cast<std::size_t>(stages),
             parts = static_cast<std::size_t>(stages * virtual_stages);
  Layers split = interleaved(flops, layers, ranks, parts);
  return config.model.layer_windows.empty() ? split : improved(std::move(split), ranks, flops);
}

}  // namespace

std::vector<Range> pipeline_blocks(const Config& config) {
  for (const std::string& misfit : {pipeline_misfit(config), layer_split_misfit(config)})
    if (!misfit.empty()) throw Error(ErrorKind::kConfig, misfit);
  Layers split = config.parallelism.pipeline_layer_split;
  if (split.empty()) split = balanced(config);
  std::vector<Range> out;
  std::int64_t begin = 0;
  for (std::size_t stage = 0; stage < split.size(); ++stage) {
    const bool last = stage + 1 == split.size();
    if (stage > 0 && !last && split[stage] == 0) {
      const std::int64_t handing_on =
          config.model.num_hidden_layers + 2 + static_cast<std::int64_t>(stage);
      out.push_back({handing_on, handing_on + 1});
      continue;
    }
    const std::int64_t end = begin + split[stage] + (stage == 0 ? 1 : 0) + (last ? 1 : 0);
    out.push_back({begin, end});
    begin = end;
  }
  return out;
}

double pipeline_idle_share(const Config& config) {
  const ParallelismConfig& parallelism = config.parallelism;
  return idle_share(pipeline_schedule(parallelism), pipeline_blocks(config),
                    config.batch.gradient_accumulation_steps, block_times(config),
                    parallelism.virtual_pipeline_stages);
}

}  // namespace hgt
