#include <filesystem>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "program.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {
const std::string kConfigOfGpt2 = source_root() + "/configs/gpt2-124m.json";
}

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
  for (const char* time : {"soon", "1:2:3:4", "0"})
    CHECK_THAT(refused(fmt::format("missing.json --gpus 8 --time {}", time)),
               Catch::Contains("is not a time limit"));
  CHECK_THAT(refused("missing.json --gpus 8 --account \"a'b\""), Catch::Contains("--account a'b"));
  for (const char* time : {"4", "4:59", "0:4:59", "0-0:4", "0-0:4:59"})
    CHECK_THAT(refused(kConfigOfGpt2 + " --gpus 8 --time " + time), Catch::Contains("too short"));
}

TEST_CASE("a job has the config's name, unless Slurm would change it") {
  const TemporaryFolder folder;
  for (const auto& [file, name] : {std::pair("small.json", "small"),
                                   {"it's.json", "hgtrain"},
                                   {"100%j.json", "hgtrain"},
                                   {"#1.json", "hgtrain"},
                                   {"a b.json", "hgtrain"},
                                   {"a\vb.json", "hgtrain"}}) {
    std::filesystem::copy(kConfigOfGpt2, folder / file);
    const Outcome printed =
        run_program(fmt::format("submit slurm \"{}\" --gpus 8 --time 5 --dry_run", folder / file));
    CHECK_THAT(printed.output, Catch::Contains(fmt::format("#SBATCH --job-name={}\n", name)));
    CHECK_THAT(printed.output, Catch::Contains(fmt::format("#SBATCH --output={}-%j.out ", name)));
  }
}

TEST_CASE("without sbatch, a script can be printed but not submitted") {
  const std::string job =
      "submit slurm " + kConfigOfGpt2 + " --gpus 8 --nodes 2 --training.num_epochs null";
  const Outcome printed = run_program(job + " --dry_run");
  CHECK_THAT(printed.output, Catch::Contains("#SBATCH --gpus-per-node=8\n"));
  CHECK_THAT(printed.output, Catch::Contains("--launcher slurm --config "));
  const Outcome refused = run_program(job, "PATH=/nowhere");
  CHECK(refused.status == 3);
  CHECK_THAT(refused.output, Catch::Contains("this machine has no sbatch"));
}
