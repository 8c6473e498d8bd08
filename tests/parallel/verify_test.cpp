#include "hgtrain/parallel/verify.h"

#include <random>
#include <utility>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// A step of a random model on random ranks.
struct Job {
  explicit Job(std::mt19937& random) {
    const auto draw = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    std::vector<Range> blocks;
    for (int i = draw(2, 9); i > 0; --i) {
      const std::int64_t begin = blocks.empty() ? 0 : blocks.back().end;
      blocks.push_back({begin, begin + draw(1, 100)});
    }
    const int stage = draw(0, 3);
    const bool tied = draw(0, 1) == 1;
    const StepShape common{.stage = stage,
                           .units = make_units(blocks, draw(1, 200), tied && stage >= 2),
                           .tied = tied,
                           .parameter_slots = draw(1, 4),
                           .gradient_slots = draw(1, 3)};
    const int ranks = draw(1, 5), micros = draw(0, 3);
    for (int rank = 0; rank < ranks; ++rank) {
      shapes.push_back(common);
      shapes.back().micro_batches = micros + (rank == 0 ? 1 : draw(0, 1));
      shapes.back().most_micro_batches = micros + 1;
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

enum class Subject { kBlocks, kParameters, kGradients, kStep };

Subject subject_of(const Action& action) {
  using Kind = Action::Kind;
  switch (action.kind) {
    case Kind::kForward:
    case Kind::kBackward:
      return Subject::kBlocks;
    case Kind::kGather:
    case Kind::kRelease:
      return Subject::kParameters;
    case Kind::kUpdate:
      return Subject::kStep;
    default:
      return Subject::kGradients;
  }
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
    auto& actions = job.schedules[random() % job.schedules.size()].actions;
    const std::size_t at = random() % (actions.size() - 1);
    const Action first = actions[at], second = actions[at + 1];
    const Subject subject = subject_of(first);
    const bool depend =
        subject == subject_of(second) && (subject == Subject::kBlocks || first.unit == second.unit);
    if (!depend) continue;
    std::swap(actions[at], actions[at + 1]);
    INFO(text_of(first) << " and " << text_of(second));
    REQUIRE(job.fault() != "");
  }
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
  CHECK(find_fault(shape) == "");
}
