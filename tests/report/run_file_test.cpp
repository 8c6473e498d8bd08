#include "hgtrain/report/run_file.h"

#include <filesystem>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("run.json says what a run was and what became of it") {
  const TemporaryFolder dir;
  const auto read = [&] {
    return parse_json<nlohmann::json>(read_file(dir / "run.json", 1 << 20));
  };

  RunFile run;
  run.started_at = utc_now();
  run.command = {"hgtrain", "--config", "c.json"};
  run.versions = {{"hgtrain", "0.1.0"}};
  run.workers = {{0, "a", "cpu"}, {1, "b", "cpu", "tensor rank 1"}};
  run.layout = {{"data", 1}, {"tensor", 2}};
  RunSummary summary;
  write_run_file(dir.path(), run, summary);
  CHECK(read()["verdict"] == "running");
  CHECK(read()["exit_code"].is_null());
  CHECK(read()["summary"].is_null());
  CHECK(read()["workers"][1]["host"] == "b");
  CHECK(read()["workers"][1]["place"] == "tensor rank 1");
  CHECK_FALSE(read()["workers"][0].contains("place"));
  CHECK(read()["layout"]["tensor"] == 2);
  CHECK(read()["started_at"].get<std::string>().size() ==
        std::string("2026-11-21T10:41:03Z").size());

  StepRecord record;
  record.step = 1;
  record.loss = 2;
  record.step_ms = 500;
  record.tokens = 100;
  summary.add(record);
  run.verdict = "failed";
  run.exit_code = 5;
  run.failure =
      RunFile::Failure{1, "bytes \xff that are no UTF-8", "", {"rank 1"}, "logs/rank_1.log"};
  write_run_file(dir.path(), run, summary);
  CHECK(read()["exit_code"] == 5);
  CHECK(read()["failure"]["rank"] == 1);
  CHECK(read()["summary"]["mean_tokens_per_sec"] == 200);
  write_run_file(dir.path(), run, RunSummary());  // resumed, and no step done yet
  CHECK(read()["summary"]["mean_tokens_per_sec"] == 200);
  summary.resume(1.5);
  record.step = 2;
  record.eval_loss = 1.75;
  summary.add(record);
  write_run_file(dir.path(), run, summary);
  CHECK(read()["summary"]["eval_loss"] == 1.75);
  CHECK(read()["summary"]["best_eval_loss"] == 1.5);  // before the resume
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) ==
        1);  // no temporary file stays

  CHECK_THROWS_WITH(write_run_file(dir / "gone", run, summary), Catch::Contains("No such file"));
}
