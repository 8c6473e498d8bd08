#include <catch2/catch.hpp>

#include "program.h"

using namespace hgt;

TEST_CASE("a submitted training needs to know what it runs on, and has its config checked first") {
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = run_program("submit slurm " + arguments);
    CHECK(outcome.status == 2);
    return outcome.output;
  };
  CHECK_THAT(refused("missing.json --dry_run"), Catch::Contains("either --gpus or --num_workers"));
  CHECK_THAT(refused("missing.json --gpus 1 --num_workers 1"),
             Catch::Contains("either --gpus or --num_workers"));
  CHECK_THAT(refused("missing.json --gpus 8 --nodes 0"), Catch::Contains("--nodes"));
  CHECK_THAT(refused("missing.json --gpus 8"), Catch::Contains("missing.json"));
}

TEST_CASE("without sbatch, a script can be printed but not submitted") {
  const std::string job = "submit slurm " + source_root() +
                          "/configs/gpt2-124m.json --gpus 8 --nodes 2 --training.num_epochs null";
  const Outcome printed = run_program(job + " --dry_run");
  CHECK_THAT(printed.output, Catch::Contains("#SBATCH --gpus-per-node=8\n"));
  CHECK_THAT(printed.output, Catch::Contains("--launcher slurm --config "));
}
