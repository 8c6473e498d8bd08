#include "hgtrain/parallel/rank_plan.h"

#include <algorithm>

#include "hgtrain/base/checked.h"

namespace hgt {
namespace {

/// One unit is computed with while another one is gathered or summed.
constexpr int kSlots = 2;

std::int64_t unit_limit(const Config& config, int ranks) {
  const ZeroConfig& zero = config.zero;
  std::int64_t limit = default_unit_elements(config.hardware.device != "cuda", ranks);
  if (zero.stage >= 1)
    limit = std::min({limit, zero.reduce_bucket_size, zero.allgather_bucket_size});
  if (zero.stage == 3)
    limit = std::min({limit, zero.prefetch_bucket_size, zero.max_live_parameters / kSlots});
  return std::max<std::int64_t>(limit, 1);
}

/// One slot if no unit may be gathered ahead of its use, or if two of them would be more than may
/// live at a time.
int parameter_slots(const ZeroConfig& zero, std::span<const Unit> units) {
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, unit.elements.size());
  return zero.prefetch_bucket_size == 0 || zero.max_live_parameters < kSlots * largest ? 1 : kSlots;
}

}  // namespace

std::vector<Slice> RankPlan::updated_slices() const {
  if (stage() == 0) return {{{0, shape.units.back().elements.end}, 0}};
  return {slices().begin(), slices().end()};
}

int ranks_of(const Config& config) {
  const BatchConfig& batch = config.batch;
  const std::int64_t samples = batch.micro_batch_size * batch.gradient_accumulation_steps;
  if (samples < 1 || batch.train_batch_size < samples) return 1;
  return checked_cast<int>(batch.train_batch_size / samples, "the number of workers",
                           ErrorKind::kConfig);
}

std::int64_t default_unit_elements(bool on_cpu, int ranks) {
  return on_cpu ? std::int64_t{4} << 20 : std::int64_t{1'000'000} * std::max(ranks, 40);
}

RankPlan plan_rank(const Config& config, std::span<const Range> blocks, bool tied, int rank,
                   int ranks, std::int64_t unit_elements) {
  const std::int64_t micros =
      config.batch.train_batch_size / std::max<std::int64_t>(config.batch.micro_batch_size, 1);
  const Range mine = even_range(micros, ranks, rank);
  const int stage = static_cast<int>(config.zero.stage);
  StepShape shape{
      .stage = stage,
      .units = make_units(blocks, unit_elements > 0 ? unit_elements : unit_limit(config, ranks),
                          tied && stage >= 2),
      .tied = tied,
      .micro_batches = mine.size(),
      .most_micro_batches = even_range(micros, ranks, 0).size(),
      .gradient_slots = kSlots};
  shape.parameter_slots = parameter_slots(config.zero, shape.units);
  Schedule schedule = make_schedule(shape);
  return {rank, mine, Sharding(blocks, ranks), std::move(shape), std::move(schedule)};
}

}  // namespace hgt
