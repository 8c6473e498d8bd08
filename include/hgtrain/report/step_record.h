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
  double elapsed_s = 0;     ///< of training up to here, over all parts of the run
  std::int64_t tokens = 0;  ///< of this step, all ranks
  double tokens_per_sec = 0;
  std::int64_t consumed_samples = 0;
  double samples_per_sec = 0;
  std::int64_t mem_bytes = 0;
  std::int64_t mem_peak_bytes = 0;
  double comm_ms = 0;  ///< exposed: compute waited for it
  double data_wait_ms = 0;
  std::optional<double> mfu;
  std::optional<double> eval_loss;
  std::optional<double> loss_scale;  ///< of fp16
};

/// Of an object read back, a number that is null or missing is NaN or nothing; a whole number that
/// is missing or not an integer, or a value that is no number, is an Error(kData).
void to_json(nlohmann::json& json, const StepRecord& record);
void from_json(const nlohmann::json& json, StepRecord& record);

}  // namespace hgt
