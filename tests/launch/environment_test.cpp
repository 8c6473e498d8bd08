#include "environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"

using namespace hgt;

namespace {

bool contains(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

JobSpec four_workers() {
  JobSpec spec;
  spec.num_workers = 4;
  spec.run_id = "a1";
  spec.max_restarts = 3;
  return spec;
}

}  // namespace

TEST_CASE("a rank gets the variables that torchrun, DeepSpeed and Horovod workers look for") {
  const auto set = worker_environment(four_workers(), 2, 1).set;
  const std::map<std::string, std::string> expected = {{"RANK", "2"},
                                                       {"LOCAL_RANK", "2"},
                                                       {"ROLE_RANK", "2"},
                                                       {"WORLD_SIZE", "4"},
                                                       {"LOCAL_WORLD_SIZE", "4"},
                                                       {"LOCAL_SIZE", "4"},
                                                       {"ROLE_WORLD_SIZE", "4"},
                                                       {"ROLE_NAME", "default"},
                                                       {"NODE_RANK", "0"},
                                                       {"GROUP_RANK", "0"},
                                                       {"GROUP_WORLD_SIZE", "1"},
                                                       {"CROSS_RANK", "0"},
                                                       {"CROSS_SIZE", "1"},
                                                       {"MASTER_ADDR", "127.0.0.1"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "1"},
                                                       {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                       {"TORCHELASTIC_RUN_ID", "a1"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                       {"HGTRAIN_RUN_ID", "a1"}};
  for (const auto& [name, value] : expected) {
    INFO(name);
    CHECK(set.at(name) == value);
  }
}

TEST_CASE("what is only known at the start is named, and not set before") {
  JobSpec spec = four_workers();
  using Names = std::vector<std::string>;
  CHECK(worker_environment(spec, 0, 0).at_start ==
        Names{"HGTRAIN_CONTROL_FD", "HGTRAIN_JOB_KEY", "MASTER_PORT"});
  spec.master_port = 29500;
  CHECK(worker_environment(spec, 0, 0).at_start.size() == 2);
  CHECK(worker_environment(spec, 0, 0).set.at("MASTER_PORT") == "29500");
}

TEST_CASE("the variables of an outer launcher do not reach the workers") {
  setenv("RANK", "77", 1);
  setenv("TORCHELASTIC_ERROR_FILE", "/outer", 1);
  setenv("HGTRAIN_RUN_DIR", "/outer", 1);
  setenv("HGTRAIN_TEST_KEPT", "yes", 1);
  const auto env =
      full_environment(worker_environment(four_workers(), 0, 0), {{"MASTER_PORT", "5"}});
  for (const char* name : {"RANK", "TORCHELASTIC_ERROR_FILE", "HGTRAIN_RUN_DIR"}) unsetenv(name);
  CHECK(contains(env, "RANK=0"));
  CHECK(contains(env, "MASTER_PORT=5"));
  CHECK(contains(env, "HGTRAIN_TEST_KEPT=yes"));
  CHECK_FALSE(contains(env, "RANK=77"));
  CHECK_FALSE(contains(env, "TORCHELASTIC_ERROR_FILE=/outer"));
  CHECK_FALSE(contains(env, "HGTRAIN_RUN_DIR=/outer"));
}

TEST_CASE("threads and devices are the user's if the user has set them") {
  unsetenv("OMP_NUM_THREADS");
  CHECK(std::atoi(worker_environment(four_workers(), 0, 0).set.at("OMP_NUM_THREADS").c_str()) >= 1);
  setenv("OMP_NUM_THREADS", "7", 1);
  setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7", 1);
  const auto env = full_environment(worker_environment(four_workers(), 3, 0), {});
  unsetenv("OMP_NUM_THREADS");
  unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(contains(env, "OMP_NUM_THREADS=7"));
  CHECK(contains(env, "CUDA_VISIBLE_DEVICES=4,5,6,7"));
}

TEST_CASE("files of a rank are named if there is a folder for them") {
  JobSpec spec = four_workers();
  CHECK(log_file(spec, 1).empty());
  spec.log_dir = "logs";
  spec.run_dir = "run";
  CHECK(log_file(spec, 1) == "logs/rank_1.log");
  const auto set = worker_environment(spec, 1, 0).set;
  CHECK(set.at("TORCHELASTIC_ERROR_FILE") == std::filesystem::absolute("logs/rank_1.error.json"));
  CHECK(set.at("HGTRAIN_RUN_DIR") == "run");
}

TEST_CASE("a variable that the launcher sets, or that cannot be one, is refused") {
  JobSpec spec = four_workers();
  spec.env[GENERATE("RANK", "MASTER_PORT", "HGTRAIN_JOB_KEY", "", "A=B")] = "x";
  CHECK_THROWS_AS(worker_environment(spec, 0, 0), Error);
}

TEST_CASE("the variables of the list travel to other hosts, and those that are named") {
  setenv("HF_TOKEN", "secret", 1);
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  setenv("SOMETHING_ELSE", "x", 1);
  setenv("HGTRAIN_JOB_SECRET", "of another job", 1);
  const auto plain = travelling_environment({});
  CHECK(plain.at("HF_TOKEN") == "secret");
  CHECK(plain.count("PATH") == 1);
  CHECK(plain.count("CUDA_VISIBLE_DEVICES") == 0);
  CHECK(plain.count("SOMETHING_ELSE") == 0);
  CHECK(plain.count("HGTRAIN_JOB_SECRET") == 0);
  const auto named = travelling_environment({"CUDA_VISIBLE_DEVICES", "SOMETHING_ELSE"});
  CHECK(named.at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(named.at("SOMETHING_ELSE") == "x");
  for (const char* name :
       {"HF_TOKEN", "CUDA_VISIBLE_DEVICES", "SOMETHING_ELSE", "HGTRAIN_JOB_SECRET"})
    unsetenv(name);
  CHECK_THROWS_WITH(travelling_environment({"SOMETHING_ELSE"}),
                    "--export SOMETHING_ELSE: it is not set in this shell");
  const auto hint_for = [](const std::string& name) {
    try {
      travelling_environment({name});
    } catch (const Error& e) {
      return e.hint();
    }
    return std::string("taken");
  };
  CHECK(hint_for("SOMETHING_ELSE") == "to give it a value: --env SOMETHING_ELSE=VALUE");
  CHECK(hint_for("FOO=1") == "use --env FOO=1");
  CHECK_THAT(hint_for("A,B"), Catch::EndsWith("--export A --export B"));
  CHECK_THAT(hint_for("ALL"), Catch::StartsWith("leave it out: "));
}
