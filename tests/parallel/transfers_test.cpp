#include "transfers.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/parallel/verify.h"

#include "schedules.h"

using namespace hgt;

namespace {

constexpr PipelineSchedule kSchedules[] = {PipelineSchedule::kGpipe, PipelineSchedule::k1F1B,
                                           PipelineSchedule::kZbH1};

/// The stages of a pipeline with ranges of one or two blocks each.
struct Pipeline {
  Pipeline(int count, int micros, PipelineSchedule schedule, bool tied = false, int ranges = 1) {
    for (int i = 0; i < count; ++i)
      shapes.push_back({.stage = i % 2,
                        .units = {},
                        .tied = tied,
                        .micro_batches = micros,
                        .max_micro_batches = micros,
                        .pipeline = {i, count, schedule}});
    std::int64_t begin = 0;
    for (int i = 0; i < count * ranges; ++i) {
      const std::int64_t end = begin + 1 + i % 2;
      shapes[static_cast<std::size_t>(i % count)].units.push_back(
          {{begin, end}, {begin, end}, 0, i / count});
      begin = end;
    }
    for (const StepShape& shape : shapes) schedules.push_back(make_schedule(shape));
  }
  std::vector<ScheduledRank> ranks() const {
    std::vector<ScheduledRank> out;
    for (std::size_t i = 0; i < shapes.size(); ++i) out.push_back({&shapes[i], &schedules[i]});
    return out;
  }
  std::string fault() const { return find_transfer_fault(ranks()); }

  std::vector<StepShape> shapes;
  std::vector<Schedule> schedules;
};

bool is_transfer(const Action& action) {
  using Kind = Action::Kind;
  return action.kind == Kind::kReceiveInput || action.kind == Kind::kSendOutput ||
         action.kind == Kind::kReceiveGradient || action.kind == Kind::kSendGradient;
}

}  // namespace

TEST_CASE("no pipeline has a deadlock, with any number of stages and micro-batches") {
  for (const PipelineSchedule schedule : kSchedules)
    for (const bool tied : {false, true})
      for (int stages = 1; stages <= 9; ++stages)
        for (int micros = 0; micros <= 12; ++micros) {
          INFO(stages << " stages, " << micros << " micro-batches, tied " << tied);
          const Pipeline pipeline(stages, micros, schedule, tied);
          REQUIRE(pipeline.fault() == "");
          for (const StepShape& shape : pipeline.shapes)
            REQUIRE(find_fault(shape, make_schedule(shape)) == "");
        }
}

TEST_CASE("no interleaved pipeline has a deadlock, with any number of micro-batches") {
  for (const bool tied : {false, true})
    for (int stages = 2; stages <= 6; ++stages)
      for (int ranges = 2; ranges <= 4; ++ranges)
        for (int micros = 0; micros <= 2 * stages + 1; ++micros) {
          INFO(stages << " stages, " << ranges << " ranges, " << micros << " micro-batches");
          const Pipeline pipeline(stages, micros, PipelineSchedule::k1F1B, tied, ranges);
          REQUIRE(pipeline.fault() == "");
          for (const StepShape& shape : pipeline.shapes)
            REQUIRE(find_fault(shape, make_schedule(shape)) == "");
        }
}

TEST_CASE("a pipeline that lacks a transfer, or has one twice, is not sound") {
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    const int ranges = 1 + static_cast<int>(random() % 3);
    const PipelineSchedule schedule =
        ranges > 1 ? PipelineSchedule::k1F1B : kSchedules[random() % std::size(kSchedules)];
    Pipeline pipeline(2 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 6),
                      schedule, false, ranges);
    auto& actions = pipeline.schedules[random() % pipeline.schedules.size()].actions;
    std::vector<std::ptrdiff_t> transfers;
    for (std::ptrdiff_t at = 0; at < std::ssize(actions); ++at)
      if (is_transfer(actions[static_cast<std::size_t>(at)])) transfers.push_back(at);
    const auto victim = actions.begin() + transfers[random() % transfers.size()];
    const bool twice = random() % 2 == 0;
    INFO((twice ? "twice " : "without ") << text_of(*victim));
    if (twice)
      actions.insert(victim, Action(*victim));
    else
      actions.erase(victim);
    REQUIRE(pipeline.fault() != "");
  }
}

TEST_CASE("a forward that comes before its input is a deadlock") {
  Pipeline pipeline(2, 2, PipelineSchedule::k1F1B);
  auto& actions = pipeline.schedules[1].actions;
  REQUIRE(text_of(actions[0]) == "<F1.0");
  std::swap(actions[0], actions[1]);
  CHECK(pipeline.fault() == "deadlock: stage 0 cannot pass action 6 (B0.0)");
}

TEST_CASE("transfers in another order than the other stage's do not match") {
  Pipeline pipeline(2, 2, PipelineSchedule::kGpipe);
  auto& actions = pipeline.schedules[1].actions;
  REQUIRE((text_of(actions[0]) == "<F1.0" && text_of(actions[1]) == "<F1.1"));
  std::swap(actions[0], actions[1]);
  CHECK(pipeline.fault() == "the transfers between the stages 0 and 1 do not match");
}

TEST_CASE("a transfer that comes after what the stages do together is a deadlock") {
  Pipeline late(2, 2, PipelineSchedule::k1F1B);
  move(late.schedules[1].actions, ">B1.1");
  CHECK(late.fault() == "deadlock: stage 0 cannot pass action 7 (B0.1)");
  Pipeline tied(2, 2, PipelineSchedule::k1F1B, true);
  REQUIRE(tied.fault() == "");
  move(tied.schedules[1].actions, "T", ">B1.1");
  CHECK(tied.fault() == "deadlock: stage 0 cannot pass action 7 (B0.1)");
}

TEST_CASE("ends of a tied embedding that are not at the same action are a deadlock") {
  Pipeline other(2, 1, PipelineSchedule::k1F1B, true);
  move(other.schedules[1].actions, "E", "T");
  CHECK(other.fault() == "deadlock: stage 0 cannot pass action 4 (T)");
  Pipeline one(3, 1, PipelineSchedule::k1F1B, true);
  std::erase_if(one.schedules[2].actions, [](const Action& a) { return text_of(a) == "T"; });
  CHECK(one.fault() == "deadlock: stage 0 cannot pass action 4 (T)");
}

TEST_CASE("in an evaluation, stages wait for each other only at the beginning and at the end") {
  const BlockTime block{1, 0, 0};
  const std::vector<BlockTime> blocks(100, block);
  for (int stages = 2; stages <= 6; ++stages)
    for (int ranges = 1; ranges <= 4; ++ranges) {
      Pipeline pipeline(stages, 2 * stages, PipelineSchedule::k1F1B, false, ranges);
      for (std::size_t i = 0; i < pipeline.shapes.size(); ++i) {
        std::vector<Unit>& units = pipeline.shapes[i].units;
        for (std::size_t range = 0; range < units.size(); ++range) {
          const auto at = static_cast<std::int64_t>(range * pipeline.shapes.size() + i);
          units[range].blocks = {at, at + 1};
        }
      }
      for (int micros = 1; micros <= 3 * stages; ++micros) {
        CAPTURE(stages, ranges, micros);
        for (std::size_t i = 0; i < pipeline.shapes.size(); ++i)
          pipeline.schedules[i] = evaluation_of(pipeline.shapes[i], micros);
        REQUIRE(pipeline.fault() == "");
        if (ranges == 1 || micros % stages == 0)
          CHECK(pipeline_time(pipeline.ranks(), blocks) == micros * ranges + stages - 1);
      }
    }
}

TEST_CASE("the last stage of an interleaved pipeline sends to the first one") {
  Pipeline pipeline(2, 1, PipelineSchedule::k1F1B, false, 2);
  auto& actions = pipeline.schedules[0].actions;
  const auto received = std::ranges::find_if(
      actions, [](const Action& action) { return action.kind == Action::Kind::kReceiveInput; });
  REQUIRE(text_of(*received) == "<F3.0");
  actions.erase(received);
  CHECK_THAT(pipeline.fault(), Catch::Contains("stage 0 cannot pass") && Catch::Contains("F3.0"));
}
