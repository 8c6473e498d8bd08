#include "synthetic_run.h"

#include <catch2/catch.hpp>

#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("a run on drawn tokens trains the model of its config") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.training.train_iters = 10;
  config.hardware.threads = 1;
  config.batch = {.train_batch_size = 2, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  SyntheticRun run(config);
  CHECK(run.table().num_parameters > 0);
  for (int i = 0; i < 3; ++i) CHECK(run.step() > 0);
}
