#include "hgtrain/report/eta.h"

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

/// A run as its machine takes it, which reports each step to an Eta.
struct FakeRun {
  Eta::Plan plan;
  double first_s = 0;  ///< what the first step takes besides its work
  double step_s = 0, eval_s = 0, save_s = 0;
  double now_s = 0;
  std::int64_t step = 0;

  void take(Eta& eta) {
    StepRecord record;
    record.step = ++step;
    const double took_s = step_s + (step == 1 ? first_s : 0);
    record.step_ms = took_s * 1e3;
    now_s += took_s;
    const bool last = step == plan.total_steps;
    if (plan.eval_interval > 0 && (last || step % plan.eval_interval == 0)) {
      record.eval_loss = 1;
      now_s += eval_s;
    }
    record.elapsed_s = now_s;
    eta.add(record);
    if (last || (plan.save_interval > 0 && step % plan.save_interval == 0)) now_s += save_s;
  }
};

/// The ETA after so many steps, and the seconds that the run still takes then.
std::pair<double, double> eta_and_truth(FakeRun run, int steps) {
  Eta eta(run.plan);
  for (int i = 0; i < steps; ++i) run.take(eta);
  const double then_s = run.now_s, at = eta.seconds().value();
  Eta ignored(run.plan);
  while (run.step < run.plan.total_steps) run.take(ignored);
  return {at, run.now_s - then_s};
}

}  // namespace

TEST_CASE("steps that set things up do not count once there are later ones") {
  const FakeRun run{.plan = {.total_steps = 1000}, .first_s = 30, .step_s = 0.1};
  const auto [eta, truth] = eta_and_truth(run, 20);
  CHECK(eta == Approx(truth));
  CHECK(eta_and_truth(run, 1).first == Approx(999 * 30.1));
}

TEST_CASE("evaluations to come are counted before the first one, and saves after it") {
  FakeRun run{.plan = {.total_steps = 1000, .eval_interval = 50, .eval_iters = 30},
              .step_s = 0.1,
              .eval_s = 0.9};
  auto [eta, truth] = eta_and_truth(run, 20);
  CHECK(eta == Approx(truth).epsilon(0.05));
  run.plan.save_interval = 40;
  run.save_s = 2;
  std::tie(eta, truth) = eta_and_truth(run, 105);
  CHECK(eta == Approx(truth).epsilon(0.01));
  run.plan.total_steps = 990;  // the last step is evaluated and saved, too
  std::tie(eta, truth) = eta_and_truth(run, 105);
  CHECK(eta == Approx(truth).epsilon(0.01));
}

TEST_CASE("a step that is evaluated and follows a save counts both as one pause") {
  const FakeRun run{.plan = {.total_steps = 100, .eval_interval = 1, .save_interval = 10},
                    .step_s = 1,
                    .eval_s = 0.5};
  const auto [eta, truth] = eta_and_truth(run, 20);
  CHECK(eta == Approx(truth));
}

TEST_CASE("after a resume only the steps since then count") {
  Eta eta({.total_steps = 200});
  StepRecord record;
  record.step = 100;
  record.step_ms = 5000;
  record.elapsed_s = 1000;
  eta.add(record);
  eta.restart();
  for (record.step = 101; record.step <= 105; ++record.step) {
    record.step_ms = record.step == 101 ? 9000 : 100;
    record.elapsed_s += record.step_ms * 1e-3;
    eta.add(record);
  }
  CHECK(eta.seconds().value() == Approx(95 * 0.1));
}

TEST_CASE("a run that slows down is noticed") {
  FakeRun run{.plan = {.total_steps = 100000}, .step_s = 0.1};
  Eta eta(run.plan);
  for (int i = 0; i < 5000; ++i) run.take(eta);
  run.step_s = 0.2;
  for (int i = 0; i < 500; ++i) run.take(eta);
  CHECK(eta.seconds().value() == Approx(94500 * 0.2).epsilon(0.02));
}

TEST_CASE("there is no ETA before the first step, after the last, and without a length") {
  Eta eta({.total_steps = 1});
  CHECK(!eta.seconds());
  StepRecord record;
  record.step = 1;
  eta.add(record);
  CHECK(!eta.seconds());
  Eta endless{{}};
  endless.add(record);
  CHECK(!endless.seconds());
}
