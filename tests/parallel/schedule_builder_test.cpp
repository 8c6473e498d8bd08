#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hgtrain/parallel/schedule.h"

#include "schedules.h"

using namespace hgt;

namespace {

std::string text_of(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions) texts.push_back(hgt::text_of(action));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string text_of(const EvaluationSchedule& schedule) {
  return fmt::format("{} | {} | {}", text_of(schedule.before), text_of(schedule.round),
                     text_of(schedule.after));
}

}  // namespace

TEST_CASE("without ZeRO, a unit is summed once the last micro-batch completes its gradients") {
  StepShape shape = shape_of(0, 3, false, 2);
  CHECK(text_of(make_schedule(shape).actions) ==
        "F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 R2 B1.1 R1 B0.1 R0 U");
  shape.units = make_units(blocks_of(3), 20);
  CHECK(text_of(make_schedule(shape).actions) ==
        "F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 B1.1 R1 B0.1 R0 U");
}

TEST_CASE("stage 1 gathers the parameters after the update") {
  CHECK(text_of(make_schedule(shape_of(1, 3, false)).actions) ==
        "F0.0 F1.0 F2.0 B2.0 R2 B1.0 R1 B0.0 R0 U G0 G1 G2");
}

TEST_CASE("stage 2 sums the gradients of each micro-batch, in slots that it uses in turn") {
  CHECK(text_of(make_schedule(shape_of(2, 4, false)).actions) ==
        "F0.0 F1.0 F2.0 C3 F3.0 B3.0 R3 C2 B2.0 R2 A3 C1 B1.0 R1 A2 C0 B0.0 R0 A1 A0 U "
        "G0 G1 G2 G3");
}

TEST_CASE("the gradients of a tied embedding begin in the head, in a slot of their own") {
  const Schedule schedule = make_schedule(shape_of(2, 4, true));
  CHECK(text_of(schedule.actions) ==
        "F0.0 F1.0 F2.0 C0 C3 F3.0 B3.0 R3 C2 B2.0 R2 A3 C1 B1.0 R1 B0.0 R0 A2 A1 A0 U "
        "G0 G1 G2 G3");
  CHECK(schedule.gradient_slots == std::vector<int>{2, 0, 1, 0});
}

TEST_CASE("stage 3 gathers a unit while the one before it computes") {
  StepShape shape = shape_of(3, 4, false);
  CHECK(text_of(make_schedule(shape).actions) ==
        "G0 G1 F0.0 X0 G2 F1.0 X1 G3 F2.0 C3 F3.0 B3.0 R3 X3 G1 "
        "C2 B2.0 R2 A3 C1 B1.0 R1 A2 C0 B0.0 R0 A1 A0 X2 X1 U");
}

TEST_CASE("a rank without a micro-batch starts its sums before those of a tied embedding") {
  StepShape shape = shape_of(0, 2, true, 0);
  shape.max_micro_batches = 1;
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(text_of(make_schedule(shape).actions) == "R1 T R0 U E");
}

TEST_CASE("a rank without a micro-batch takes part in all sums and gathers") {
  StepShape shape = shape_of(3, 3, true, 0);
  shape.max_micro_batches = 1;
  CHECK(text_of(make_schedule(shape).actions) == "G0 G1 G2 C0 C2 R2 C1 R1 R0 A2 A1 A0 X1 X2 X0 U");
}

TEST_CASE("an evaluation goes forward only, and gathers what it reads") {
  StepShape shape = shape_of(3, 4, false);
  CHECK(text_of(make_evaluation(shape, 1)) == " | G0 G1 F0.0 X0 G2 F1.0 X1 G3 F2.0 F3.0 X2 X3 | ");
  CHECK(text_of(make_evaluation(shape, 0)) == " | G0 G1 X0 G2 X1 G3 X2 X3 | ");
  shape.stage = 1;
  CHECK(text_of(make_evaluation(shape, 1)) == " | F0.0 F1.0 F2.0 F3.0 | ");
}

TEST_CASE("an evaluation gathers once if every unit has a slot of its own") {
  CHECK(text_of(make_evaluation(shape_of(3, 2, false), 1)) == "G0 G1 | F0.0 F1.0 | X0 X1");
  CHECK(text_of(make_evaluation(shape_of(3, 3, true), 1)) ==
        "G0 G1 G2 | F0.0 F1.0 F2.0 | X1 X2 X0");
  CHECK(text_of(make_evaluation(shape_of(3, 3, true), 0)) == "G0 G1 G2 |  | X1 X2 X0");
}

TEST_CASE("a slot is as large as its largest unit") {
  StepShape shape = shape_of(3, 4, false);
  shape.units[2].elements.end += 5;
  shape.units[3].elements.begin += 5;
  const Schedule schedule = make_schedule(shape);
  CHECK(schedule.parameter_slot_elements == std::vector<std::int64_t>{15, 10});
  CHECK(schedule.gradient_slot_elements == schedule.parameter_slot_elements);
  CHECK(make_schedule(shape_of(1, 4, false)).parameter_slot_elements.empty());
}

TEST_CASE(
    "1F1B computes forwards and backwards alternately, and holds a micro-batch for each later "
    "stage") {
  StepShape shape = shape_of(0, 1, false, 3);
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(text_of(make_schedule(shape).actions) ==
        "F0.0 >F0.0 <B0.0 F0.1 >F0.1 <B0.1 B0.0 F0.2 >F0.2 <B0.2 B0.1 B0.2 R0 U");
  CHECK(shape.slots() == std::vector{2});
  shape.units[0].blocks = {1, 2};
  shape.pipeline.index = 1;
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F1.0 F1.0 B1.0 >B1.0 <F1.1 F1.1 B1.1 >B1.1 <F1.2 F1.2 B1.2 >B1.2 R0 U");
  CHECK(shape.slots() == std::vector{1});
}

TEST_CASE("an interleaved schedule takes micro-batches through a rank's ranges in groups") {
  StepShape shape = shape_of(0, 1, false, 4);
  shape.units = {{{0, 1}, {0, 10}}, {{2, 3}, {20, 30}, 10, 1}};
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(shape.ranges() == std::vector<Range>{{0, 1}, {2, 3}});
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F2.0 <F2.1 "
        "F0.0 >F0.0 F0.1 >F0.1 F2.0 >F2.0 <B2.0 F2.1 >F2.1 <B2.1 <B0.0 <B0.1 "
        "F0.2 >F0.2 B2.0 >B2.0 <F2.2 F0.3 >F0.3 B2.1 >B2.1 <F2.3 "
        "F2.2 >F2.2 <B2.2 B0.0 F2.3 >F2.3 <B2.3 <B0.2 <B0.3 B0.1 "
        "B2.2 >B2.2 B2.3 >B2.3 R1 B0.2 B0.3 R0 U");
  CHECK(shape.slots() == std::vector{4, 2});
  shape.units = {{{1, 2}, {10, 20}}, {{3, 4}, {30, 40}, 10, 1}};
  shape.pipeline.index = 1;
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F1.0 <F1.1 <F3.0 F1.0 >F1.0 <B1.0 F1.1 >F1.1 <B1.1 "
        "F3.0 B3.0 >B3.0 <F3.1 <F1.2 F3.1 B3.1 >B3.1 "
        "F1.2 >F1.2 <B1.2 B1.0 >B1.0 <F1.3 <F3.2 F1.3 >F1.3 <B1.3 B1.1 >B1.1 "
        "F3.2 B3.2 >B3.2 <F3.3 F3.3 B3.3 >B3.3 R1 B1.2 >B1.2 B1.3 >B1.3 R0 U");
  CHECK(shape.slots() == std::vector{3, 1});
}

TEST_CASE("two ranges of a rank between which a stage has no layers are not one") {
  StepShape shape = shape_of(0, 1, false, 1);
  shape.units = {{{0, 1}, {0, 10}}, {{1, 3}, {10, 30}, 10, 1}};
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(shape.ranges() == std::vector<Range>{{0, 1}, {1, 3}});
  CHECK(shape.ends_range(0));
  CHECK(shape.begins_range(1));
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F1.0 F0.0 >F0.0 F1.0 F2.0 >F2.0 <B2.0 <B0.0 B2.0 B1.0 >B1.0 R1 B0.0 R0 U");
}

TEST_CASE("an interleaved schedule leaves out the micro-batches that its last group lacks") {
  const auto without = [](std::vector<Action> actions, int micro) {
    std::erase_if(actions, [&](const Action& action) {
      return action.micro >= micro || action.kind == Action::Kind::kReduce;
    });
    return text_of(actions);
  };
  StepShape shape = shape_of(0, 1, false, 6);
  shape.units = {{{0, 1}, {0, 10}}, {{3, 4}, {30, 40}, 10, 1}};
  shape.pipeline = {.index = 0, .count = 3};
  const auto computes = [](std::vector<Action> actions) {
    std::erase_if(actions, [](const Action& action) {
      return action.kind != Action::Kind::kForward && action.kind != Action::Kind::kBackward;
    });
    return actions;
  };
  const std::vector<Action> all = computes(make_schedule(shape).actions);
  for (int micros = 0; micros < 6; ++micros) {
    shape.micro_batches = shape.max_micro_batches = micros;
    CHECK(text_of(computes(make_schedule(shape).actions)) == without(all, micros));
  }
}

TEST_CASE("GPipe computes all forwards, then all backwards") {
  StepShape shape = shape_of(0, 1, false, 3);
  shape.pipeline = {.index = 0, .count = 2, .schedule = PipelineSchedule::kGpipe};
  CHECK(text_of(make_schedule(shape).actions) ==
        "F0.0 >F0.0 <B0.0 F0.1 >F0.1 <B0.1 F0.2 >F0.2 <B0.2 B0.0 B0.1 B0.2 R0 U");
}

TEST_CASE("ZB-H1 postpones the gradients of a later stage's weights") {
  StepShape shape = shape_of(0, 1, false, 3);
  shape.pipeline = {.index = 0, .count = 3, .schedule = PipelineSchedule::kZbH1};
  CHECK(text_of(make_schedule(shape).actions) ==
        "F0.0 >F0.0 <B0.0 F0.1 >F0.1 <B0.1 F0.2 >F0.2 <B0.2 B0.0 B0.1 B0.2 R0 U");
  shape.units[0].blocks = {1, 2};
  shape.pipeline.index = 1;
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F1.0 <F1.1 F1.0 >F1.0 <B1.0 F1.1 >F1.1 <B1.1 I1.0 >B1.0 <F1.2 F1.2 >F1.2 <B1.2 "
        "I1.1 >B1.1 W1.0 I1.2 >B1.2 W1.1 W1.2 R0 U");
  // The head's weights have their gradient after its forward.
  shape.units[0].blocks = {2, 4};
  shape.pipeline.index = 2;
  CHECK(text_of(make_schedule(shape).actions) ==
        "<F2.0 F2.0 F3.0 B3.0 I2.0 >B2.0 <F2.1 F2.1 F3.1 B3.1 I2.1 >B2.1 <F2.2 F2.2 F3.2 B3.2 I2.2 "
        ">B2.2 W2.0 W2.1 W2.2 R0 U");
}

TEST_CASE("the gradients of a tied embedding are summed over its stages before the ranks' sum") {
  StepShape shape = shape_of(1, 1, true);
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(text_of(make_schedule(shape).actions) == "F0.0 >F0.0 <B0.0 B0.0 T R0 U G0 E");
  shape.units[0].blocks = {1, 2};
  shape.pipeline.index = 1;
  CHECK(text_of(make_schedule(shape).actions) == "<F1.0 F1.0 B1.0 >B1.0 R0 T U G0 E");
}

TEST_CASE("an evaluation passes as many micro-batches through the pipeline as it has stages") {
  StepShape shape = shape_of(0, 1, false);
  shape.units[0].blocks = {1, 2};
  shape.pipeline = {.index = 1, .count = 3};
  CHECK(text_of(make_evaluation(shape, 1)) == " | <F1.0 F1.0 >F1.0 | ");
  CHECK(text_of(make_evaluation(shape, 0)) == " |  | ");
  CHECK(evaluation_round(shape) == 1);  // it has no more in a step
  shape.micro_batches = shape.max_micro_batches = 8;
  CHECK(evaluation_round(shape) == 3);
  CHECK(text_of(make_evaluation(shape, 3)) ==
        " | <F1.0 <F1.1 F1.0 >F1.0 <F1.2 F1.1 >F1.1 F1.2 >F1.2 | ");
  shape.units = {{{0, 1}, {0, 10}}, {{2, 3}, {20, 30}, 10, 1}};
  shape.pipeline = {.index = 0, .count = 2};
  CHECK(text_of(make_evaluation(shape, 2)) ==
        " | <F2.0 <F2.1 F0.0 >F0.0 F0.1 >F0.1 F2.0 >F2.0 F2.1 >F2.1 | ");
}
