#include "loaded.h"

using namespace hgt;

TEST_CASE("a notice says where the metrics are if a monitor is enabled") {
  const LoadResult result = loaded(
      R"({"wandb": {"enabled": true, "project": "x"}, "comet": {"enabled": true, "api_key": "k"},
      "comms_logger": {"enabled": true, "prof_ops": []}, "flops_profiler": {"enabled": true, "output_file": null},
      "csv_monitor": {"enabled": true}, "tensorboard": {"enabled": false, "job_name": "j"},
      "timers": {"throughput": {"enabled": true, "synchronized": true}}})");
  CHECK(problem_text(result, Severity::kError) == "");
  CHECK(problem_text(result, Severity::kNotBuilt) == "");
  const std::string notices = problem_text(result, Severity::kNotice);
  for (const char* monitor : {"wandb", "comet", "csv_monitor"})
    CHECK(
        contains(notices, std::string(monitor) +
                              " is enabled, but hgtrain does not write to it | every metric is in "
                              "metrics.jsonl and metrics.csv"));
  CHECK_FALSE(contains(notices, "tensorboard is enabled"));
  CHECK_FALSE(contains(notices, "wandb.enabled"));
}

TEST_CASE("unknown keys of a monitor are refused, those of the autotuner are ignored") {
  CHECK(contains(errors(R"({"tensorboard": {"jobname": "x"}})"), "did you mean job_name?"));
  CHECK(errors(R"({"autotuning": {"enabled": false, "anything": 1}})") == "");
  CHECK(problem_text(loaded(R"({"autotuning": {"enabled": true}})"), Severity::kNotBuilt) != "");
}
