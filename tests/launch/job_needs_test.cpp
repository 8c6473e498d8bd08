#include "job_needs.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/launch/rendezvous.h"

#include "support/temporary_folder.h"

using namespace hgt;
using namespace std::chrono_literals;

namespace {

JobSpec two_hosts() {
  JobSpec out;
  out.hosts = {{.name = "a"}, {.name = "b"}};
  out.elastic_timeout = 7s;
  return out;
}

}  // namespace

TEST_CASE("a job is elastic if it has a range of hosts, or a spare") {
  JobSpec job = two_hosts();
  CHECK_FALSE(is_elastic(job));
  job.hosts[1].is_spare = true;
  CHECK(is_elastic(job));
  job = two_hosts();
  job.min_hosts = 1;
  CHECK(is_elastic(job));
}

TEST_CASE("a restart waits for hosts that ssh reaches, and for nodes only if the job is elastic") {
  JobSpec job = two_hosts();
  CHECK(patience_of(job) == 7s);
  job.rendezvous.emplace().join_timeout = 9s;
  CHECK(patience_of(job) == 0s);
  job.min_hosts = 1;
  CHECK(patience_of(job) == 9s);
  CHECK(patience_of({}) == 0s);
}

TEST_CASE("hosts must have GPUs if their number or their names are given") {
  JobSpec job = two_hosts();
  CHECK_FALSE(uses_gpus(job));
  job.hosts[1].min_gpus = 1;
  CHECK(uses_gpus(job));
  job.hosts[1] = {.name = "b", .devices = {"4"}};
  CHECK(uses_gpus(job));
}

TEST_CASE("hosts are asked for what ranks find there: absolute paths, but nodes' own folders") {
  const std::string here = std::filesystem::current_path();
  JobSpec job = two_hosts();
  job.run_dir = "runs/one";
  job.shared_file = "runs/one/.mark";
  job.token_files = {"data/text"};
  job.own_workers = true;
  Inspect asked = inspection_of(job);
  CHECK(asked.folder == here + "/runs/one");
  CHECK(asked.run_dir == "runs/one");
  CHECK(asked.shared_file == here + "/runs/one/.mark");
  CHECK(asked.work_folder == here);
  CHECK(asked.token_files == job.token_files);
  CHECK(asked.command == "");
  job.pushed_files.for_all = {"data/text.bin"};
  CHECK(inspection_of(job).work_folder == "");
  CHECK(inspection_of(job).token_files.empty());
  job.rendezvous.emplace();
  asked = inspection_of(job);
  CHECK(asked.folder == "runs/one");
  CHECK(asked.work_folder == "");
}

TEST_CASE("hosts are asked for the program and the script of a job of others' programs") {
  JobSpec job = two_hosts();
  job.own_workers = false;
  job.argv = [](int) { return std::vector<std::string>{"python3", "train.py"}; };
  job.env = {{"PATH", "/nowhere"}};
  job.script = "train.py";
  const Inspect asked = inspection_of(job);
  CHECK(asked.command == "python3");
  CHECK(asked.path == "/nowhere");
  CHECK(asked.script == "train.py");
}
