#include "early_stop.h"

#include <limits>

#include <catch2/catch.hpp>

#include "hgtrain/config/training_config.h"

using namespace hgt;

namespace {

TrainingState fresh() {
  return {.best_eval_loss = std::numeric_limits<double>::infinity()};
}

TrainingConfig config_of(std::int64_t eval_interval, std::optional<double> target_loss,
                         std::int64_t patience = 0) {
  TrainingConfig config;
  config.eval_interval = eval_interval;
  config.target_loss = target_loss;
  config.patience = patience;
  return config;
}

}  // namespace

TEST_CASE("the target is judged by the validation loss if there is one") {
  TrainingState state = fresh();
  const TrainingConfig config = config_of(2, 1.5);
  CHECK_FALSE(early_stop(config, state, 1.0));
  count_evaluation(1.6, state);
  CHECK_FALSE(early_stop(config, state, 1.0));
  count_evaluation(1.5, state);
  CHECK(*early_stop(config, state, 9.0) == "validation loss 1.5 reached target_loss 1.5");
  CHECK(early_stop(config, state, std::nullopt));  // also of a run that is resumed
}

TEST_CASE("without evaluations the target is judged by the training loss") {
  const TrainingConfig config = config_of(0, 1.5);
  CHECK_FALSE(early_stop(config, fresh(), 1.6));
  CHECK_FALSE(early_stop(config, fresh(), std::nullopt));
  CHECK(*early_stop(config, fresh(), 1.4) == "training loss 1.4 reached target_loss 1.5");
}

TEST_CASE("patience of one evaluation") {
  TrainingState state = fresh();
  count_evaluation(2.0, state);
  count_evaluation(2.5, state);
  CHECK(*early_stop(config_of(1, std::nullopt, 1), state, 1.0) ==
        "validation loss has not improved on 2 for 1 evaluation");
}

TEST_CASE("patience counts evaluations without a new best") {
  TrainingState state = fresh();
  const TrainingConfig config = config_of(1, std::nullopt, 2);
  for (const double loss : {2.0, 2.0, 1.9, 2.1}) {
    count_evaluation(loss, state);
    CHECK_FALSE(early_stop(config, state, 1.0));
  }
  count_evaluation(2.1, state);
  CHECK(*early_stop(config, state, 1.0) ==
        "validation loss has not improved on 1.9 for 2 evaluations");
}
