#include "early_stop.h"

#include <limits>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {
TrainingState fresh() {
  return {.best_eval_loss = std::numeric_limits<double>::infinity()};
}
}  // namespace

TEST_CASE("the target is judged by the validation loss where there is one") {
  TrainingState state = fresh();
  const TrainingConfig config{.eval_interval = 2, .target_loss = 1.5};
  CHECK_FALSE(early_stop(config, 1.0, std::nullopt, state));
  CHECK_FALSE(early_stop(config, 1.0, 1.6, state));
  CHECK(*early_stop(config, 9.0, 1.5, state) == "validation loss 1.5 reached target_loss 1.5");
}

TEST_CASE("without evaluations the target is judged by the training loss") {
  TrainingState state = fresh();
  const TrainingConfig config{.target_loss = 1.5};
  CHECK_FALSE(early_stop(config, 1.6, std::nullopt, state));
  CHECK(early_stop(config, 1.4, std::nullopt, state));
}

TEST_CASE("patience counts evaluations without a new best, and only those") {
  TrainingState state = fresh();
  TrainingConfig config;
  config.eval_interval = 1;
  config.patience = 2;
  CHECK_FALSE(early_stop(config, 1, 2.0, state));
  CHECK_FALSE(early_stop(config, 1, 2.0, state));
  CHECK_FALSE(early_stop(config, 1, std::nullopt, state));
  CHECK_FALSE(early_stop(config, 1, 1.9, state));
  CHECK_FALSE(early_stop(config, 1, 2.1, state));
  CHECK(*early_stop(config, 1, 2.1, state) ==
        "validation loss has not improved on 1.9 for 2 evaluations");
}
