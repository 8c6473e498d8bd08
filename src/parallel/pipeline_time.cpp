#include "hgtrain/parallel/pipeline_time.h"

#include <vector>

#include "transfers.h"

namespace hgt {

double idle_share(PipelineSchedule schedule, std::span<const Range> stages,
                  std::int64_t micro_batches, std::span<const BlockTime> blocks,
                  std::int64_t virtual_stages) {
  const auto count = static_cast<int>(std::ssize(stages) / virtual_stages);
  std::vector<StepShape> shapes;
  std::vector<Schedule> schedules;
  std::vector<ScheduledRank> ranks;
  for (int stage = 0; stage < count; ++stage)
    shapes.push_back({.units = {},
                      .micro_batches = micro_batches,
                      .most_micro_batches = micro_batches,
                      .pipeline = {stage, count, schedule}});
  for (std::size_t i = 0; i < stages.size(); ++i)
    shapes[i % shapes.size()].units.push_back({stages[i], {}});
  for (const StepShape& shape : shapes) schedules.push_back(make_schedule(shape));
  for (std::size_t i = 0; i < shapes.size(); ++i) ranks.push_back({&shapes[i], &schedules[i]});
  double work = 0;
  for (const BlockTime& block : blocks) work += block.sum();
  const double time = static_cast<double>(count) * pipeline_time(ranks, blocks);
  return time > 0 ? 1 - static_cast<double>(micro_batches) * work / time : 0;
}

}  // namespace hgt
