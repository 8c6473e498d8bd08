#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

namespace hgt {

/// One line of metrics.jsonl. `step` N means N finished steps. Non-finite numbers become null.
struct StepRecord {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;  ///< before clipping
  double lr = 0;
  double step_ms = 0;
  double elapsed_s = 0;     ///< training time up to here, over all parts of the run
  std::int64_t tokens = 0;  ///< of this step, all ranks
  double tokens_per_sec = 0;
  std::int64_t consumed_samples = 0;
  double samples_per_sec = 0;
  /// Of a process or GPU; this and the next one are the largest of all ranks.
  std::int64_t mem_bytes = 0;
  std::int64_t mem_peak_bytes = 0;
  double comm_ms = 0;     ///< exposed communication: compute waited for it
  double sent_bytes = 0;  ///< sent to other ranks by the rank that sends most
  double data_wait_ms = 0;
  std::optional<double> mfu;
  std::optional<double> eval_loss;
  std::optional<double> loss_scale;  ///< of fp16
};

/// from_json reads a number that is null or missing as NaN, or as nullopt if it is optional. It
/// throws Error(kData) if an integer is missing or not an integer, or if a value is not a number.
void to_json(nlohmann::json& json, const StepRecord& record);
void from_json(const nlohmann::json& json, StepRecord& record);

}  // namespace hgt
