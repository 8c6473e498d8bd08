#include "hgtrain/parallel/verify.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "schedules.h"

using namespace hgt;

namespace {

/// A step of a random model, or of a pipeline's stage with it, on random ranks.
struct Job {
  explicit Job(std::mt19937& random) {
    const auto draw = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    PipelineStage pipeline;
    if (draw(0, 1) == 1)
      pipeline = {
          .count = draw(1, 6),
          .schedule = std::array{PipelineSchedule::kGpipe, PipelineSchedule::k1F1B,
                                 PipelineSchedule::kZbH1}[static_cast<std::size_t>(draw(0, 2))]};
    pipeline.index = draw(0, pipeline.count - 1);
    std::vector<Range> blocks;
    for (int i = draw(2, 9); i > 0; --i) {
      const std::int64_t begin = blocks.empty() ? 0 : blocks.back().end;
      blocks.push_back({begin, begin + draw(1, 100)});
    }
    const int stage = draw(0, pipeline.count > 1 ? 1 : 3);
    const bool tied = draw(0, 1) == 1;
    StepShape common{.stage = stage,
                     .units = make_units(blocks, draw(1, 200), tied && stage >= 2),
                     .tied = tied,
                     .parameter_slots = draw(1, 4),
                     .gradient_slots = draw(1, 3),
                     .pipeline = pipeline};
    if (!pipeline.is_first())
      for (Unit& unit : common.units) unit.blocks = {unit.blocks.begin + 1, unit.blocks.end + 1};
    const bool is_inner = !pipeline.is_first() && !pipeline.is_last();
    if (is_inner && draw(0, 3) == 0)
      common.units = {{.blocks = {100, 101}, .elements = {}}};  // it has no layers
    const int ranks = draw(1, 5), micros = draw(0, pipeline.count > 1 ? 9 : 3);
    for (int rank = 0; rank < ranks; ++rank) {
      shapes.push_back(common);
      shapes.back().micro_batches = micros + (rank == 0 ? 1 : draw(0, 1));
      shapes.back().max_micro_batches = micros + 1;
      schedules.push_back(make_schedule(shapes.back()));
    }
  }
  std::string fault() const {
    std::vector<ScheduledRank> ranks;
    for (std::size_t i = 0; i < shapes.size(); ++i) ranks.push_back({&shapes[i], &schedules[i]});
    return find_fault(ranks);
  }

  std::vector<StepShape> shapes;
  std::vector<Schedule> schedules;
};

enum class Subject { kBlocks, kParameters, kGradients, kStep, kTransfers };

Subject subject_of(const Action& action) {
  using Kind = Action::Kind;
  switch (action.kind) {
    case Kind::kForward:
    case Kind::kBackward:
    case Kind::kBackwardInput:
    case Kind::kBackwardWeights:
      return Subject::kBlocks;
    case Kind::kReceiveInput:
    case Kind::kSendOutput:
    case Kind::kReceiveGradient:
    case Kind::kSendGradient:
      return Subject::kTransfers;
    case Kind::kGather:
    case Kind::kRelease:
      return Subject::kParameters;
    case Kind::kUpdate:
      return Subject::kStep;
    default:
      return Subject::kGradients;
  }
}

/// Whether neighbouring actions must keep their order. Of what they transfer, see transfers.h.
bool depend(const Action& first, const Action& second, const StepShape& shape) {
  const Subject subject = subject_of(first);
  if (subject != subject_of(second) || subject == Subject::kTransfers) return false;
  const bool sums_tied =
      first.kind == Action::Kind::kSumTied || second.kind == Action::Kind::kSumTied;
  if (sums_tied && !shape.pipeline.is_first())
    return false;  // the head's are in memory of their own
  if (subject != Subject::kBlocks) return first.unit == second.unit;
  const bool begins_weights =
      second.kind == Action::Kind::kBackwardWeights && first.kind != second.kind;
  return first.micro == second.micro && (!begins_weights || first.block == second.block);
}

/// The stage of a pipeline of three with layer 1 alone, or the last one of two with layer 1 and the
/// head, on a single rank, with changed actions.
std::string fault_of_split(bool last, void (*change)(std::vector<Action>&)) {
  StepShape shape{.units = {{{1, last ? 3 : 2}, {0, 10}}},
                  .micro_batches = 3,
                  .max_micro_batches = 3,
                  .pipeline = {1, last ? 2 : 3, PipelineSchedule::kZbH1}};
  Schedule schedule = make_schedule(shape);
  change(schedule.actions);
  const ScheduledRank rank{&shape, &schedule};
  return find_fault({&rank, 1});
}

}  // namespace

TEST_CASE("every schedule of thousands of layouts is sound") {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) REQUIRE(Job(random).fault() == "");
}

TEST_CASE("a schedule that lacks an action, or has one twice, is not sound") {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    Job job(random);
    auto& actions = job.schedules[random() % job.schedules.size()].actions;
    const auto victim = actions.begin() + static_cast<std::ptrdiff_t>(random() % actions.size());
    if (subject_of(*victim) == Subject::kTransfers) continue;
    const bool twice = random() % 2 == 0;
    INFO((twice ? "twice " : "without ") << text_of(*victim));
    if (twice)
      actions.insert(victim, *victim);
    else
      actions.erase(victim);
    REQUIRE(job.fault() != "");
  }
}

TEST_CASE("a schedule whose neighbouring actions change places is not sound if they depend") {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    Job job(random);
    const std::size_t rank = random() % job.schedules.size();
    auto& actions = job.schedules[rank].actions;
    const std::size_t at = random() % (actions.size() - 1);
    const Action first = actions[at], second = actions[at + 1];
    if (!depend(first, second, job.shapes[rank])) continue;
    std::swap(actions[at], actions[at + 1]);
    INFO(text_of(first) << " and " << text_of(second));
    REQUIRE(job.fault() != "");
  }
}

TEST_CASE("the weights' half of a backward has its place") {
  const auto none = [](std::vector<Action>&) {};
  CHECK((fault_of_split(false, none) + fault_of_split(true, none)).empty());
  CHECK_THAT(fault_of_split(false, [](auto& a) { move(a, "W1.0", "I1.0"); }),
             Catch::EndsWith("(W1.0): its input's half comes first"));
  CHECK_THAT(fault_of_split(false, [](auto& a) { move(a, "W1.0", "R0"); }),
             Catch::EndsWith("(I1.2): another micro-batch is between its halves in its slot"));
  CHECK_THAT(
      fault_of_split(true, [](auto& a) { move(a, "W1.0", "R0"); }),
      Catch::EndsWith("(F1.2): another micro-batch waits for its weights' half in its slot"));
  CHECK_THAT(fault_of_split(true, [](auto& a) { find(a, "W1.1")->micro = 0; }),
             Catch::EndsWith("(W1.0): it is not the next weights' half of its micro-batch"));
  CHECK_THAT(fault_of_split(true, [](auto& a) { std::swap(*find(a, "W1.1"), *find(a, "W1.2")); }),
             Catch::EndsWith("(W1.2): the sums would not be in the order of the micro-batches"));
  using Kind = Action::Kind;
  const char* const mixed = "the halves of its backward are not apart, or should not be";
  CHECK_THAT(fault_of_split(true, [](auto& a) { find(a, "I1.0")->kind = Kind::kBackward; }),
             Catch::EndsWith(mixed));
  CHECK_THAT(fault_of_split(true, [](auto& a) { find(a, "B2.0")->kind = Kind::kBackwardInput; }),
             Catch::EndsWith(mixed));
}

TEST_CASE("a slot that is too small, or a unit without one, is not sound") {
  std::mt19937 random(4);
  int found = 0;
  while (found < 1000) {
    Job job(random);
    Schedule& schedule = job.schedules[random() % job.schedules.size()];
    auto& sizes =
        random() % 2 == 0 ? schedule.parameter_slot_elements : schedule.gradient_slot_elements;
    if (sizes.empty()) continue;
    ++found;
    if (random() % 2 == 0) {
      --sizes[random() % sizes.size()];
      REQUIRE_THAT(job.fault(), Catch::Contains("it does not fit in its slot"));
    } else {
      sizes.pop_back();
      REQUIRE_THAT(job.fault(), Catch::Contains("it has no slot"));
    }
  }
}

TEST_CASE("ranks that start collectives in another order are named") {
  std::vector<Range> blocks{{0, 10}, {10, 20}, {20, 30}};
  const StepShape shape{.stage = 1, .units = make_units(blocks, 10)};
  const Schedule right = make_schedule(shape);
  Schedule wrong = right;
  std::swap(wrong.actions[wrong.actions.size() - 1], wrong.actions[wrong.actions.size() - 2]);
  const ScheduledRank ranks[] = {{&shape, &right}, {&shape, &wrong}};
  CHECK(find_fault(ranks) == "rank 1 is at G2, but rank 0 is at G1");
  CHECK(find_fault(shape, make_schedule(shape)) == "");
}

TEST_CASE("ranks that sum tied gradients at another place are named") {
  StepShape shape{.units = {{{0, 1}, {0, 10}}, {{1, 2}, {10, 20}}}, .tied = true};
  shape.pipeline = {.index = 0, .count = 2};
  const Schedule right = make_schedule(shape);
  Schedule wrong = right;
  // Rank 0 waits for rank 1's part of R1, rank 1 for the other end of its tie, and that for the
  // same of the last stage's ranks.
  move(wrong.actions, "R1", "R0");
  const ScheduledRank ranks[] = {{&shape, &right}, {&shape, &wrong}};
  CHECK(find_fault(ranks) == "rank 1 is at T, but rank 0 is at R1");
}
