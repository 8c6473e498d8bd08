#include "loaded.h"

using namespace hgt;

TEST_CASE("a monitor that is a service is noticed, one that writes files is not built") {
  const LoadResult services = loaded(
      R"({"wandb": {"enabled": true, "project": "x"}, "comet": {"enabled": true, "api_key": "k"},
      "comms_logger": {"enabled": true, "prof_ops": []}, "flops_profiler": {"enabled": true, "output_file": null},
      "timers": {"throughput": {"enabled": true, "synchronized": true}}})");
  CHECK(told(services, Severity::kError) == "");
  CHECK(told(services, Severity::kNotBuilt) == "");
  CHECK(contains(told(services, Severity::kNotice), "wandb.enabled"));
  const LoadResult files = loaded(
      R"({"csv_monitor": {"enabled": true}, "tensorboard": {"enabled": false, "job_name": "j"}})");
  CHECK(contains(told(files, Severity::kNotBuilt),
                 "csv_monitor.enabled = true is not built yet | metrics.jsonl"));
  CHECK_FALSE(contains(told(files, Severity::kNotBuilt), "tensorboard"));
}

TEST_CASE("unknown keys of a monitor are refused, those of the autotuner are ignored") {
  CHECK(contains(errors(R"({"tensorboard": {"jobname": "x"}})"), "did you mean job_name?"));
  CHECK(errors(R"({"autotuning": {"enabled": false, "anything": 1}})") == "");
  CHECK(told(loaded(R"({"autotuning": {"enabled": true}})"), Severity::kNotBuilt) != "");
}
