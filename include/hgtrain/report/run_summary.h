#pragma once

#include <cstdint>
#include <optional>

#include "hgtrain/report/step_record.h"

namespace hgt {

/// Averages and peaks of the steps of one run, shown at its end: add every record once. Averages
/// are over the steps that have the number (the mean mfu is over steps with an mfu), or over time.
class RunSummary {
 public:
  void add(const StepRecord& record);
  /// The training resumes from a checkpoint, whose lowest evaluation loss was `best_eval_loss`.
  void resume(std::optional<double> best_eval_loss);

  std::int64_t steps() const { return steps_; }
  const StepRecord& first() const { return first_; }  ///< of steps() > 0
  const StepRecord& last() const { return last_; }    ///< of steps() > 0
  double mean_step_ms() const { return per_step(step_ms_); }
  double mean_comm_ms() const { return per_step(comm_ms_); }
  double mean_data_wait_ms() const { return per_step(data_wait_ms_); }
  double mean_tokens_per_sec() const;  ///< all tokens over all step time
  std::optional<double> mean_mfu() const;
  double peak_tokens_per_sec() const { return peak_tokens_per_sec_; }
  std::int64_t peak_mem_bytes() const { return peak_mem_bytes_; }

  /// The latest evaluation loss, and the lowest one with those before the run was resumed; nullopt
  /// if there was no evaluation.
  std::optional<double> eval_loss() const { return eval_loss_; }
  std::optional<double> best_eval_loss() const { return best_eval_loss_; }
  /// 0: before the run was resumed.
  std::int64_t best_eval_step() const { return best_eval_step_; }

 private:
  double per_step(double sum) const { return steps_ > 0 ? sum / static_cast<double>(steps_) : 0; }

  std::int64_t steps_ = 0;
  StepRecord first_, last_;
  double step_ms_ = 0, comm_ms_ = 0, data_wait_ms_ = 0, tokens_ = 0;
  double mfu_ = 0;
  std::int64_t mfu_steps_ = 0;
  double peak_tokens_per_sec_ = 0;
  std::int64_t peak_mem_bytes_ = 0;
  std::optional<double> eval_loss_, best_eval_loss_;
  std::int64_t best_eval_step_ = 0;
};

}  // namespace hgt
