#include "lamb.h"

#include <catch2/catch.hpp>

#include "optimizer_runs.h"

using namespace hgt;

namespace {

OptimizerConfig lamb() {
  OptimizerConfig config;
  config.type = "Lamb";
  config.weight_decay = 0.1;
  return config;
}

/// How far the first update at rate 1 moves an element of a tensor whose elements are all `value`,
/// with gradients that are all 1. It moves by the ratio, because its direction is 1 without betas.
float first_move(OptimizerConfig config, float value) {
  config.weight_decay = config.beta1 = config.beta2 = 0;
  config.eps = 1e-20;
  OptimizerRun run(config, table_of({100}, 1));
  for (std::size_t i = 0; i < 100; ++i) {
    run.parameters[i] = value;
    run.gradients[i] = 1;
  }
  run.step({1, {}, {}}, 1, 1);
  return value - run.parameters[0];
}

}  // namespace

TEST_CASE("the number of threads changes no bit of Lamb's updates") {
  const auto one = updated_by(lamb(), 1);
  CHECK(updated_by(lamb(), 2) == one);
  CHECK(updated_by(lamb(), 3) == one);
}

TEST_CASE("a tensor moves by its norm, within the coefficients; one of zeros by the rate") {
  CHECK(first_move(lamb(), 0.5f) == Approx(0.5));
  CHECK(first_move(lamb(), 2.0f) == Approx(2.0));
  CHECK(first_move(lamb(), 0.0f) == Approx(1.0));
  OptimizerConfig narrow = lamb();
  narrow.min_coeff = 0.3;
  narrow.max_coeff = 0.4;
  CHECK(first_move(narrow, 0.5f) == Approx(0.4));
  CHECK(first_move(narrow, 0.125f) == Approx(0.3));
}

TEST_CASE("each tensor has its own ratio") {
  OptimizerConfig config = lamb();
  config.weight_decay = 0;
  OptimizerRun run(config, table_of({3, 3}, 2));
  for (std::size_t i = 0; i < 3; ++i) {
    run.parameters[i] = 1;
    run.parameters[64 + i] = 0.25;
    run.gradients[i] = run.gradients[64 + i] = 1;
  }
  run.step({0.1, {}, {}}, 1, 1);
  CHECK(1 - run.parameters[0] == Approx(4 * (0.25 - run.parameters[64])));
}
