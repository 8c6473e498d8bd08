#include <filesystem>
#include <fstream>
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

TEST_CASE("other options of sbatch are passed on, unless they would undo what a job relies on") {
  const std::string job = "submit slurm " + kConfigOfGpt2 + " --gpus 8 --dry_run --sbatch ";
  CHECK_THAT(run_program(job + "qos=long --sbatch=--exclusive --sbatch \"comment='a b'\"").output,
             Catch::Contains("#SBATCH --qos=long\n#SBATCH --exclusive\n#SBATCH --comment='a b'\n"));
  for (const char* typed : {"=long", "C=a100", "\"a b\"", "\"qos=a\nexit 1\""}) {
    const Outcome refused = run_program(job + typed);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.output, Catch::Contains("this is no option of sbatch"));
  }
  for (const char* typed : {"nodes=3", "signal=USR1@5", "no-requeue", "ntask=4", "array=0-3"}) {
    const Outcome refused = run_program(job + typed);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.output, Catch::Contains("the job relies on --"));
  }
  for (const char* typed : {"\"comment=my run\"", "comment=a#1", "\"comment='a b\""}) {
    const Outcome refused = run_program(job + typed);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.output, Catch::Contains("would not read all of it as one value"));
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

TEST_CASE("a job goes to the queue again if a host is lost, but not for ever") {
  const TemporaryFolder folder;
  const auto program = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << "#!/bin/sh\n" << text << '\n';
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
  };
  program("srun", "echo srun \"$@\"; echo $HGTRAIN_TYPED_COMMAND; exit $STATUS");
  program("scontrol", "echo scontrol \"$@\"");
  const Outcome printed =
      run_program("submit slurm " + kConfigOfGpt2 + " --gpus 8 --nodes 2 --dry_run");
  std::ofstream(folder / "script") << printed.output;
  const auto job = [&](const std::string& variables) {
    return run_in_shell(
        fmt::format("PATH={0}:$PATH SLURM_JOB_ID=12 SLURM_JOB_NUM_NODES=2 {1} "
                    "bash {0}/script",
                    folder.path(), variables));
  };
  const auto requeued = Catch::Contains("scontrol requeue 12\n");
  const Outcome lost = job("STATUS=6");
  CHECK_THAT(lost.output, Catch::Contains(" --wait=60 ") && requeued);
  CHECK_THAT(lost.output, Catch::Contains(fmt::format(
                              R"(["{}/hgtrain","submit","slurm","{}","--gpus","8","--nodes","2"])",
                              build_root(), kConfigOfGpt2)));
  CHECK(lost.status == 6);
  CHECK_THAT(job("STATUS=6 SLURM_WAIT=5").output, Catch::Contains(" --wait=5 "));
  CHECK_THAT(job("STATUS=6 SLURM_RESTART_COUNT=9").output, requeued);
  CHECK_THAT(job("STATUS=6 SLURM_RESTART_COUNT=10").output, !requeued);
  CHECK_THAT(job("STATUS=6 SLURM_RESTART_COUNT=10 SECONDS=3600").output, requeued);
  for (const char* status : {"STATUS=0", "STATUS=1", "STATUS=5", "STATUS=75"})
    CHECK_THAT(job(status).output, !requeued);
}
