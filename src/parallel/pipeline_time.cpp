#include "hgtrain/parallel/pipeline_time.h"

#include <algorithm>
#include <vector>

#include "transfers.h"

namespace hgt {

namespace {

/// How many groups of micro-batches are executed; a group has as many as there are stages.
constexpr std::int64_t kGroups = 16;

/// The stages and their blocks are as idle_share gets them.
double step_time(PipelineSchedule schedule, std::span<const Range> stages, int count,
                 std::int64_t micro_batches, std::span<const BlockTime> blocks) {
  std::vector<StepShape> shapes;
  std::vector<Schedule> schedules;
  std::vector<ScheduledRank> ranks;
  for (int stage = 0; stage < count; ++stage)
    shapes.push_back({.units = {},
                      .micro_batches = micro_batches,
                      .max_micro_batches = micro_batches,
                      .pipeline = {stage, count, schedule}});
  for (std::size_t i = 0; i < stages.size(); ++i)
    shapes[i % shapes.size()].units.push_back(
        {.blocks = stages[i], .elements = {}, .range = static_cast<int>(i / shapes.size())});
  for (const StepShape& shape : shapes) schedules.push_back(make_schedule(shape));
  for (std::size_t i = 0; i < shapes.size(); ++i) ranks.push_back({&shapes[i], &schedules[i]});
  return pipeline_time(ranks, blocks);
}

}  // namespace

double idle_share(PipelineSchedule schedule, std::span<const Range> stages,
                  std::int64_t micro_batches, std::span<const BlockTime> blocks,
                  std::int64_t virtual_stages) {
  const std::int64_t count = std::ssize(stages) / virtual_stages;
  const auto time_of = [&](std::int64_t micros) {
    return step_time(schedule, stages, static_cast<int>(count), micros, blocks);
  };
  // In the steady state, each group of as many micro-batches as there are stages takes as long as
  // the one before.
  const std::int64_t groups = std::max<std::int64_t>(0, micro_batches / count - kGroups),
                     executed = micro_batches - groups * count;
  double time = time_of(executed);
  if (groups > 0) time += static_cast<double>(groups) * (time - time_of(executed - count));
  double work = 0;
  for (const BlockTime& block : blocks) work += block.sum();
  return time > 0
             ? 1 - static_cast<double>(micro_batches) * work / (static_cast<double>(count) * time)
             : 0;
}

}  // namespace hgt
