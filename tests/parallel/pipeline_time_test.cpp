#include "hgtrain/parallel/pipeline_time.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// The time for which each stage waits, in a pipeline of equal stages with two layers each.
double waits(PipelineSchedule schedule, int stages, int micros, BlockTime stage) {
  std::vector<Range> blocks;
  std::vector<BlockTime> times = {{}};  // the embedding
  for (int i = 0; i < stages; ++i) {
    const std::int64_t begin = i == 0 ? 0 : 2 * i + 1, end = 2 * i + 3;
    blocks.push_back({begin, i + 1 == stages ? end + 1 : end});
    for (int layer = 0; layer < 2; ++layer)
      times.push_back({stage.forward / 2, stage.backward_input / 2, stage.backward_weights / 2});
  }
  times.emplace_back();  // the head
  const double share = idle_share(schedule, blocks, micros, times);
  return micros * stage.sum() * share / (1 - share);
}

constexpr BlockTime kTimes[] = {{1, 1, 1}, {1, 1.2, 0.8}, {2, 1, 0.25}, {0.5, 3, 1}, {3, 0.5, 1}};

}  // namespace

TEST_CASE("the stages of GPipe and 1F1B wait for a forward and a backward of each other stage") {
  for (const auto schedule : {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B})
    for (int stages = 1; stages <= 8; ++stages)
      for (const int micros : {1, 2, stages, stages + 1, 2 * stages, 5 * stages})
        for (const BlockTime& t : kTimes) {
          CAPTURE(stages, micros, t.backward_input);
          CHECK(waits(schedule, stages, micros, t) == Approx((stages - 1) * t.sum()).margin(1e-9));
        }
}

TEST_CASE("the stages of ZB-H1 fill a part of their waits with gradients of weights") {
  for (int stages = 1; stages <= 8; ++stages)
    for (const int micros : {1, 2, stages - 1, stages, stages + 1, 2 * stages - 1, 5 * stages})
      for (const BlockTime& t : kTimes) {
        if (micros == 0) continue;
        CAPTURE(stages, micros, t.forward, t.backward_input);
        const double filled = std::min({t.forward, t.backward_input, t.backward_weights});
        CHECK(waits(PipelineSchedule::kZbH1, stages, micros, t) ==
              Approx((stages - 1) * (t.forward + t.backward_input) -
                     (std::min(stages, micros) - 1) * filled)
                  .margin(1e-9));
      }
}

TEST_CASE("the stages of an interleaved pipeline wait for a part of that") {
  for (int stages = 2; stages <= 6; ++stages)
    for (int parts = 2; parts <= 4; ++parts)
      for (const BlockTime& t : kTimes) {
        // A layer for each virtual stage.
        std::vector<Range> blocks;
        std::vector<BlockTime> times = {{}};
        for (int i = 0; i < stages * parts; ++i) {
          blocks.push_back({i == 0 ? 0 : i + 1, i + 2});
          times.push_back(t);
        }
        blocks.back().end += 1;
        times.emplace_back();
        const auto waits = [&](int micros) {
          const double share = idle_share(PipelineSchedule::k1F1B, blocks, micros, times, parts);
          return micros * parts * t.sum() * share / (1 - share);
        };
        CAPTURE(stages, parts, t.forward, t.backward_input);
        for (const int groups : {1, 2, 4})
          CHECK(waits(groups * stages) == Approx((stages - 1) * t.sum()).margin(1e-9));
        // In a group that is not whole, a micro-batch waits at most as long as a missing one takes.
        for (int micros = 1; micros < 2 * stages; ++micros)
          CHECK(waits(micros) <= (stages - 1 + (parts - 1) * (stages - 1)) * t.sum() + 1e-9);
      }
}

TEST_CASE("the waits for very many micro-batches are found as fast as for a few") {
  for (const int stages : {2, 5, 8})
    for (const BlockTime& t : kTimes) {
      CAPTURE(stages, t.forward, t.backward_input);
      const double filled = std::min({t.forward, t.backward_input, t.backward_weights});
      CHECK(waits(PipelineSchedule::k1F1B, stages, 1'000'003, t) ==
            Approx((stages - 1) * t.sum()).epsilon(1e-6));
      CHECK(waits(PipelineSchedule::kZbH1, stages, 1'000'003, t) ==
            Approx((stages - 1) * (t.forward + t.backward_input - filled)).epsilon(1e-6));
    }
}

TEST_CASE("each further group of micro-batches takes as long as the one before") {
  const std::vector<BlockTime> blocks = {{},        {1, 1, 1}, {2, 2.5, 1.5}, {0.5, 1, 0.5},
                                         {1, 2, 1}, {3, 2, 2}, {1, 1, 0.5},   {2, 1, 0}};
  double work = 0;
  for (const BlockTime& block : blocks) work += block.sum();
  for (const auto& [parts, stages] :
       {std::pair(1, std::vector<Range>{{0, 3}, {3, 5}, {5, 8}}),
        std::pair(2, std::vector<Range>{{0, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 8}})})
    for (const auto schedule :
         {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B, PipelineSchedule::kZbH1}) {
      if (parts > 1 && schedule != PipelineSchedule::k1F1B) continue;
      const auto time = [&](std::int64_t micros) {
        const double share = idle_share(schedule, stages, micros, blocks, parts);
        return static_cast<double>(micros) * work / (3 * (1 - share));
      };
      CAPTURE(parts, static_cast<int>(schedule));
      const double group = time(47) - time(44);
      CHECK(time(44) - time(41) == Approx(group));
      CHECK(time(44 + 3 * 20'000) == Approx(time(44) + 20'000 * group));
    }
}

TEST_CASE("stages wait for the longest one") {
  const std::vector<Range> stages = {{0, 2}, {2, 4}};
  const std::vector<BlockTime> blocks = {{}, {1, 1, 1}, {2, 2, 2}, {}};
  // The second stage works for 6 x 10, the first one for half of that, and there are 2 x 63.
  CHECK(idle_share(PipelineSchedule::k1F1B, stages, 10, blocks) == Approx(1 - 90.0 / 126));
}
