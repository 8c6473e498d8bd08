#include "hgtrain/parallel/rank_plan.h"

#include <algorithm>
#include <iterator>

#include "hgtrain/base/checked.h"
#include "hgtrain/config/config.h"

namespace hgt {
namespace {

/// One slot holds the unit that is computed with, the other one the unit that is gathered or
/// summed.
constexpr int kSlots = 2;

/// ZeRO's stage for this many ranks: 0 for one rank, which has nothing to split, unless it
/// offloads. Slots would only cost it memory and time.
int stage_of(const Config& config, int ranks) {
  const ZeroConfig& zero = config.zero;
  const bool offloads = config.hardware.device == "cuda" &&
                        (zero.offload_optimizer != "none" || zero.offload_param != "none");
  return ranks > 1 || offloads ? static_cast<int>(zero.stage) : 0;
}

std::int64_t unit_limit(const Config& config, int ranks) {
  const ZeroConfig& zero = config.zero;
  std::int64_t limit = default_unit_elements(config.hardware.device != "cuda", ranks);
  if (zero.stage >= 1)
    limit = std::min({limit, zero.reduce_bucket_size, zero.allgather_bucket_size});
  if (zero.stage == 3)
    limit = std::min({limit, zero.prefetch_bucket_size, zero.max_live_parameters / kSlots});
  return std::max<std::int64_t>(limit, 1);
}

/// One slot if no unit may be gathered ahead of its use, or if two units would exceed the limit on
/// gathered parameters.
int parameter_slots(const ZeroConfig& zero, std::span<const Unit> units) {
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, unit.elements.size());
  return zero.prefetch_bucket_size == 0 || zero.max_live_parameters < kSlots * largest ? 1 : kSlots;
}

/// The ranges of blocks that a stage has of `stages`, which are as plan_rank gets them.
std::vector<Range> ranges_of(std::span<const Range> stages, const Layout& layout, int stage) {
  std::vector<Range> out;
  for (auto i = static_cast<std::size_t>(stage); i < stages.size();
       i += static_cast<std::size_t>(layout.pipeline_size))
    out.push_back(stages[i]);
  return out;
}

std::span<const Range> blocks_in(std::span<const Range> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

/// Whether a range is the block of a stage without layers: see arch/pipeline_split.h.
bool passes_through(const Range& range, std::span<const Range> all) {
  return range.begin >= std::ssize(all);
}

/// The units of a rank's ranges of blocks.
std::vector<Unit> units_of(std::span<const Range> all, std::span<const Range> ranges,
                           std::int64_t max_elements, bool first_alone) {
  std::vector<Unit> out;
  const auto end = [&] { return out.empty() ? 0 : out.back().place().end; };
  for (int i = 0; i < std::ssize(ranges); ++i) {
    const Range& range = ranges[static_cast<std::size_t>(i)];
    if (passes_through(range, all)) {
      out.push_back({.blocks = range, .elements = {}, .local = end(), .range = i});
      continue;
    }
    for (const Unit& unit : make_units(blocks_in(all, range), max_elements, first_alone))
      out.push_back({.blocks = {unit.blocks.begin + range.begin, unit.blocks.end + range.begin},
                     .elements = unit.elements,
                     .local = end(),
                     .range = i});
  }
  return out;
}

}  // namespace

std::vector<Slice> RankPlan::all_slices() const {
  std::vector<Slice> out;
  for (const Unit& unit : shape.units) {
    if (unit.elements.size() == 0) continue;
    if (shape.begins_range(static_cast<int>(unit.blocks.begin))) out.push_back(unit.slice());
    out.back().elements.end = unit.elements.end;
  }
  return out;
}

std::vector<Slice> RankPlan::updated_slices() const {
  if (stage() == 0) return all_slices();
  return {slices().begin(), slices().end()};
}

int ranks_of(const Config& config) {
  const BatchConfig& batch = config.batch;
  const std::int64_t samples = batch.micro_batch_size * batch.gradient_accumulation_steps;
  if (samples < 1 || batch.train_batch_size < samples) return 1;
  return checked_cast<int>(batch.train_batch_size / samples, "the number of workers",
                           ErrorKind::kConfig);
}

Layout layout_of(const Config& config) {
  const ParallelismConfig& parallelism = config.parallelism;
  return {static_cast<int>(parallelism.pipeline_parallel_size), ranks_of(config),
          static_cast<int>(parallelism.context_parallel_size),
          static_cast<int>(parallelism.tensor_parallel_size),
          static_cast<int>(parallelism.virtual_pipeline_stages)};
}

PipelineSchedule pipeline_schedule(const ParallelismConfig& config) {
  if (config.pipeline_schedule == "gpipe") return PipelineSchedule::kGpipe;
  return config.pipeline_schedule == "zb_h1" ? PipelineSchedule::kZbH1 : PipelineSchedule::k1F1B;
}

std::int64_t default_unit_elements(bool on_cpu, int ranks) {
  return on_cpu ? std::int64_t{4} << 20 : std::int64_t{1'000'000} * std::max(ranks, 40);
}

RankPlan plan_rank(const Config& config, std::span<const Range> blocks, bool tied, int rank,
                   int ranks, std::int64_t unit_elements, std::span<const Range> stages) {
  const Layout layout = make_layout(config.parallelism, ranks);
  const BatchConfig& batch = config.batch;
  return plan_rank(config, blocks, tied, layout, layout.coordinates_of(rank),
                   batch.train_batch_size / std::max<std::int64_t>(batch.micro_batch_size, 1),
                   unit_elements, stages);
}

RankPlan plan_rank(const Config& config, std::span<const Range> blocks, bool tied,
                   const Layout& layout, const Coordinates& at, std::int64_t micro_batches,
                   std::int64_t unit_elements, std::span<const Range> stages) {
  const std::vector<Range> own = stages.empty() ? std::vector{Range{0, std::ssize(blocks)}}
                                                : ranges_of(stages, layout, at.pipeline);
  const Range mine = even_range(micro_batches, layout.data_size, at.data);
  const int stage = stage_of(config, layout.group_size());
  StepShape shape{
      .stage = stage,
      .units = units_of(blocks, own,
                        unit_elements > 0 ? unit_elements : unit_limit(config, layout.group_size()),
                        tied && stage >= 2),
      .tied = tied,
      .micro_batches = mine.size(),
      .max_micro_batches = even_range(micro_batches, layout.data_size, 0).size(),
      .gradient_slots = kSlots,
      .pipeline = {at.pipeline, layout.pipeline_size, pipeline_schedule(config.parallelism)}};
  shape.parameter_slots = parameter_slots(config.zero, shape.units);
  Schedule schedule = make_schedule(shape);
  std::vector<Range> own_blocks;
  for (const Range& range : own)
    if (!passes_through(range, blocks))
      std::ranges::copy(blocks_in(blocks, range), std::back_inserter(own_blocks));
  Sharding sharding(own_blocks, layout.group_size());
  return {layout, at, mine, std::move(sharding), std::move(shape), std::move(schedule)};
}

}  // namespace hgt
