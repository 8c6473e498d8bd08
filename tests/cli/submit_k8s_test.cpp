#include <catch2/catch.hpp>

#include "program.h"
#include "support/put_file.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {
const std::string kConfig =
    R"({"model": {"model_type": "gpt2", "n_layer": 1}, "train_batch_size": 1,
  "data": {"train_data_path": "elsewhere"}, "training": {"train_iters": 1, "seq_length": 8}})";
const std::string kWhere = " --image hgtrain --claim me --dry_run";
}  // namespace

TEST_CASE("a Job is printed with what its flags ask of each node") {
  const Outcome outcome = run_program("submit k8s " + source_root() +
                                      "/configs/gpt2-124m.json --gpus 8 --nodes 2 --cpus 16 "
                                      "--memory 64Gi --namespace team --time 1-2:3:4" +
                                      kWhere);
  CHECK(outcome.status == 0);
  for (const char* text :
       {"\"nvidia.com/gpu\": 8", "\"cpu\": 16", "\"memory\": \"64Gi\"", "\"completions\": 2",
        "\"namespace\": \"team\"", "\"activeDeadlineSeconds\": 93784", "\"claimName\": \"me\"",
        "\"name\": \"gpt2-124m-"})
    CHECK_THAT(outcome.output, Catch::Contains(text));
}

TEST_CASE("a name for Kubernetes is made of any file's; the data need not be here") {
  const TemporaryFolder folder;
  put_file(folder / "8 Llamas.json", kConfig);
  const Outcome outcome =
      run_program("submit k8s '" + folder / "8 Llamas.json" + "' --num_workers 1" + kWhere);
  CHECK_THAT(outcome.output, Catch::Contains("\"name\": \"job-8-llamas-"));
  CHECK_THAT(outcome.output, !Catch::Contains("--nnodes"));
}

TEST_CASE("a Job is refused before anything is created") {
  const TemporaryFolder folder;
  const std::string bad = folder / "bad.json";
  put_file(bad, "// \xff\n" + kConfig);
  const auto refused = [](const std::string& arguments) {
    const Outcome outcome = run_program("submit k8s " + arguments + kWhere);
    CHECK(outcome.status == 2);
    return outcome.output;
  };
  const std::string config = source_root() + "/configs/gpt2-124m.json";
  CHECK_THAT(refused(config), Catch::Contains("either --gpus or --num_workers"));
  CHECK_THAT(refused("- --gpus 1"), Catch::Contains("standard input"));
  CHECK_THAT(refused(config + " --gpus 3"), Catch::Contains("train_batch_size"));
  CHECK_THAT(refused(config + " --gpus 8 --run_dir \xff"), Catch::Contains("not valid UTF-8"));
  CHECK_THAT(refused(bad + " --gpus 1"), Catch::Contains("not valid UTF-8"));
}
