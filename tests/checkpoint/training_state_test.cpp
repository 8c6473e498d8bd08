#include "../../src/checkpoint/training_state.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("counters survive writing and reading; older files do not know the best step") {
  TrainingState state;
  state.step = 12;
  state.best_eval_loss = 1.0 / 3.0;
  state.best_eval_step = 10;
  const std::string text = training_state_text(state);
  CHECK(parse_training_state(text) == state);
  std::string older = text;
  older.erase(older.find("\"best_eval_step\""), std::string("\"best_eval_step\": 10,").size());
  state.best_eval_step = 0;
  CHECK(parse_training_state(older) == state);
}
