#include "hgtrain/config/newest_checkpoint.h"

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("the newest checkpoint is what latest names, where that is a checkpoint") {
  const TemporaryFolder run;
  CHECK_FALSE(newest_checkpoint(run.path()));
  make_folders(run / "checkpoints/step_00000012");
  CHECK_FALSE(newest_checkpoint(run.path()));
  for (const char* wrong : {"", "step_", "step_x", "step_00000013", "../checkpoints"}) {
    write_file_atomically(run / "checkpoints/latest", wrong);
    CHECK_FALSE(newest_checkpoint(run.path()));
  }
  write_file_atomically(run / "checkpoints/latest", "step_00000012\n");
  const auto saved = newest_checkpoint(run.path());
  REQUIRE(saved);
  CHECK(saved->path == run / "checkpoints/step_00000012");
  CHECK(saved->step == 12);
}
