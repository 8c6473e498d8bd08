#include "hgtrain/parallel/schedule.h"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "schedules.h"

using namespace hgt;

TEST_CASE("units are cut from the head downwards, and hold whole blocks") {
  CHECK(make_units(blocks_of(5), 25) ==
        std::vector<Unit>{{{0, 1}, {0, 10}}, {{1, 3}, {10, 30}}, {{3, 5}, {30, 50}}});
  CHECK(make_units(blocks_of(3), 1).size() == 3);  // a block is never cut
  CHECK(make_units(blocks_of(4), 1000).size() == 1);
  CHECK(make_units(blocks_of(4), 1000, true) ==
        std::vector<Unit>{{{0, 1}, {0, 10}}, {{1, 4}, {10, 40}}});
}

TEST_CASE("a stage holds as many micro-batches however many there are, except in GPipe") {
  for (const auto schedule :
       {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B, PipelineSchedule::kZbH1})
    for (const int ranges : {1, 2, 3})
      for (int count = 1; count <= 5; ++count)
        for (int stage = 0; stage < count; ++stage) {
          if (ranges > 1 && (schedule != PipelineSchedule::k1F1B || count == 1)) continue;
          StepShape shape{.stage = 0, .units = {}, .pipeline = {stage, count, schedule}};
          for (int range = 0; range < ranges; ++range)
            shape.units.push_back({{2 * range, 2 * range + 1}, {}, 0, range});
          shape.max_micro_batches = 4 * count;
          const std::vector<int> few = shape.slots();
          shape.max_micro_batches = 1'000'003;
          CAPTURE(static_cast<int>(schedule), ranges, count, stage);
          CHECK(shape.slots() == (schedule == PipelineSchedule::kGpipe && count > 1
                                      ? std::vector<int>{1'000'003}
                                      : few));
          // By executing the schedule: no slot is free for another micro-batch before.
          shape.micro_batches = shape.max_micro_batches = 9 * count;
          std::vector<std::set<int>> held(static_cast<std::size_t>(ranges));
          std::vector<int> most(held.size(), 0);
          for (const Action& action : make_schedule(shape).actions) {
            std::set<int>& of_range = held[static_cast<std::size_t>(action.block / 2)];
            if (action.kind == Action::Kind::kForward) of_range.insert(action.micro);
            const std::size_t range = static_cast<std::size_t>(action.block / 2);
            most[range] = std::max(most[range], static_cast<int>(of_range.size()));
            if (action.kind == Action::Kind::kBackward ||
                action.kind == Action::Kind::kBackwardInput)
              of_range.erase(action.micro);
          }
          CHECK(shape.slots() == most);
        }
}

TEST_CASE("no stage of ZB-H1 holds more micro-batches than the first one of 1F1B") {
  const auto held = [](int index, int count, std::int64_t micros) {
    const SplitBackward split = split_backward({index, count, PipelineSchedule::kZbH1}, micros);
    return std::pair(split.slots, split.between);
  };
  CHECK(held(0, 4, 8) == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK(held(1, 4, 8) == std::pair<std::int64_t, std::int64_t>(4, 2));
  CHECK(held(3, 4, 8) == std::pair<std::int64_t, std::int64_t>(4, 4));
  CHECK(held(3, 4, 2) == std::pair<std::int64_t, std::int64_t>(2, 2));
  StepShape shape = shape_of(0, 1, false, 8);
  shape.pipeline = {3, 4, PipelineSchedule::kZbH1};
  CHECK(shape.slots() == std::vector{1});
  CHECK(SplitBackward{4, 2}.period(3) == 12);
  CHECK(SplitBackward{}.period(3) == 3);
}
