#include "hgtrain/report/run_summary.h"

#include <algorithm>
#include <cmath>

namespace hgt {

void RunSummary::add(const StepRecord& record) {
  if (steps_++ == 0) first_ = record;
  last_ = record;
  step_ms_ += record.step_ms;
  comm_ms_ += record.comm_ms;
  data_wait_ms_ += record.data_wait_ms;
  tokens_ += static_cast<double>(record.tokens);
  peak_tokens_per_sec_ = std::max(peak_tokens_per_sec_, record.tokens_per_sec);
  peak_mem_bytes_ = std::max(peak_mem_bytes_, record.mem_peak_bytes);
  if (record.mfu) {
    mfu_ += *record.mfu;
    ++mfu_steps_;
  }
  if (!record.eval_loss) return;
  eval_loss_ = record.eval_loss;
  if (std::isfinite(*eval_loss_) && (!best_eval_loss_ || *eval_loss_ < *best_eval_loss_)) {
    best_eval_loss_ = eval_loss_;
    best_eval_step_ = record.step;
  }
}

void RunSummary::resume(std::optional<double> best_eval_loss) {
  if (!best_eval_loss || *best_eval_loss >= best_eval_loss_.value_or(INFINITY)) return;
  best_eval_loss_ = best_eval_loss;
  best_eval_step_ = 0;
}

double RunSummary::mean_tokens_per_sec() const {
  return step_ms_ > 0 ? tokens_ / step_ms_ * 1e3 : 0;
}

std::optional<double> RunSummary::mean_mfu() const {
  if (mfu_steps_ == 0) return std::nullopt;
  return mfu_ / static_cast<double>(mfu_steps_);
}

}  // namespace hgt
