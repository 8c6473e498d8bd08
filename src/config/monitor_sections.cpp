// Monitors and profilers. The run folder's metrics.jsonl and metrics.csv have what they would show.
#include "sections.h"

namespace hgt {
namespace {

Field ignored_section(std::string name, std::vector<Field> fields) {
  Field out = section(std::move(name), "metrics are in metrics.jsonl", std::move(fields));
  out.key_class = KeyClass::kIgnored;
  return out;
}

std::vector<Field> flags(const std::vector<std::string>& names, const std::string& help) {
  std::vector<Field> out;
  for (const std::string& name : names) out.push_back(ignored(name, Kind::kBool, help));
  return out;
}

std::vector<Field> texts(const std::vector<std::string>& names, const std::string& help) {
  std::vector<Field> out;
  for (const std::string& name : names) out.push_back(ignored(name, Kind::kText, help));
  return out;
}

/// A monitor that hgtrain does not have. Training works whether it is enabled or not.
Field monitor(std::string name, const std::vector<std::string>& names) {
  std::vector<Field> fields = texts(names, "an option of a monitor that hgtrain does not have");
  fields.push_back(ignored("enabled", Kind::kBool,
                           "hgtrain does not have this monitor; metrics are in metrics.jsonl"));
  return ignored_section(std::move(name), std::move(fields));
}

Field comet() {
  Field out = monitor(
      "comet", {"project", "workspace", "api_key", "experiment_name", "experiment_key", "mode"});
  out.fields.push_back(ignored("samples_log_interval", Kind::kInteger,
                               "an option of a monitor that hgtrain does not have"));
  out.fields.push_back(
      ignored("online", Kind::kBool, "an option of a monitor that hgtrain does not have"));
  return out;
}

Field comms_logger() {
  std::vector<Field> fields =
      flags({"enabled", "verbose", "prof_all", "debug"}, "comm_ms is in metrics.jsonl");
  fields.push_back(ignored("prof_ops", Kind::kList, "comm_ms is in metrics.jsonl"));
  return ignored_section("comms_logger", std::move(fields));
}

Field flops_profiler() {
  std::vector<Field> fields = flags({"enabled", "detailed"}, "mfu is in metrics.jsonl");
  for (const char* name : {"profile_step", "module_depth", "top_modules"})
    fields.push_back(ignored(name, Kind::kInteger, "mfu is in metrics.jsonl"));
  fields.push_back(ignored("recompute_fwd_factor", Kind::kNumber, "mfu is in metrics.jsonl"));
  fields.push_back(ignored("output_file", Kind::kText, "mfu is in metrics.jsonl"));
  Field out = ignored_section("flops_profiler", std::move(fields));
  out.open = true;
  return out;
}

Field autotuning() {
  std::vector<Field> fields = flags({"fast", "overwrite"}, "an option of the tuner");
  fields.push_back(not_built("enabled", Kind::kBool, "false", "try settings before training"));
  for (Field& field :
       texts({"results_dir", "exps_dir", "metric", "metric_path", "tuner_type", "model_info_path"},
             "an option of the tuner"))
    fields.push_back(std::move(field));
  for (const char* name :
       {"start_profile_step", "end_profile_step", "tuner_early_stopping", "tuner_num_trials",
        "max_train_batch_size", "min_train_batch_size", "max_train_micro_batch_size_per_gpu",
        "min_train_micro_batch_size_per_gpu", "num_tuning_micro_batch_sizes", "mp_size"})
    fields.push_back(ignored(name, Kind::kInteger, "an option of the tuner"));
  for (const char* name : {"arg_mappings", "model_info"})
    fields.push_back(ignored(name, Kind::kAny, "an option of the tuner"));
  Field out = section("autotuning", "DeepSpeed's tuner", std::move(fields));
  out.open = true;
  return out;
}

}  // namespace

std::vector<Field> monitor_sections() {
  return {monitor("tensorboard", {"output_path", "job_name"}),
          monitor("csv_monitor", {"output_path", "job_name"}),
          monitor("wandb", {"group", "team", "project"}),
          comet(),
          comms_logger(),
          flops_profiler(),
          ignored_section("timers", {ignored_section("throughput",
                                                     flags({"enabled", "synchronized"},
                                                           "tokens_per_sec is in metrics.jsonl"))}),
          autotuning()};
}

}  // namespace hgt
