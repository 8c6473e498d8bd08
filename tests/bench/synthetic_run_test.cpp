#include "synthetic_run.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/comm/connect.h"

#include "train/tiny_config.h"

using namespace hgt;

TEST_CASE("a run on drawn tokens trains the model of its config") {
  Config config = tiny_config();
  config.training.seq_length = 8;
  config.training.train_iters = 10;
  config.hardware.threads = 1;
  config.batch = {.train_batch_size = 2, .micro_batch_size = 1, .gradient_accumulation_steps = 2};
  const auto comm = make_self_communicator();
  SyntheticRun run(config, *comm);
  CHECK(run.table().num_parameters > 0);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t begin_ns = now_ns();
    const double ms = run.step();
    CHECK(ms > 0);
    CHECK(ms <= ms_since(begin_ns));  // what is done between steps does not count
  }
}
