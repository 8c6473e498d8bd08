#include "hgtrain/report/eta.h"

#include <algorithm>

namespace hgt {
namespace {

/// Steps after `step` that are multiples of `interval`, or the last of all.
std::int64_t count_after(std::int64_t step, std::int64_t total, std::int64_t interval) {
  if (interval == 0) return 1;
  return total / interval - step / interval + (total % interval != 0 ? 1 : 0);
}

}  // namespace

void RunningMean::add(double value) {
  constexpr std::int64_t kRemembered = 100;
  mean_ += (value - mean_) / static_cast<double>(std::min(++count_, kRemembered));
}

void Eta::restart() {
  steps_seen_ = 0;
}

void Eta::add(const StepRecord& record) {
  constexpr std::int64_t kWarmUp = 2;
  const double step_s = record.step_ms * 1e-3;
  if (++steps_seen_ == kWarmUp + 1) step_s_ = {};
  if (steps_seen_ == 1) {
    step_s_.add(step_s);
  } else {
    // A checkpoint is saved after the record of its step, an evaluation is made before.
    const double passed_s = record.elapsed_s - elapsed_s_, pause_s = passed_s - step_s;
    const bool saved = plan_.save_interval > 0 && step_ % plan_.save_interval == 0;
    step_s_.add(saved || record.eval_loss ? step_s : passed_s);
    if (record.eval_loss)
      eval_s_.add(pause_s);
    else if (saved)
      save_s_.add(pause_s);
  }
  step_ = record.step;
  elapsed_s_ = record.elapsed_s;
}

std::optional<double> Eta::seconds() const {
  const std::int64_t left = plan_.total_steps - step_;
  if (steps_seen_ == 0 || left <= 0) return std::nullopt;
  const double step_s = *step_s_.value();
  double seconds = static_cast<double>(left) * step_s;
  if (plan_.eval_interval > 0)
    seconds += static_cast<double>(count_after(step_, plan_.total_steps, plan_.eval_interval)) *
               eval_s_.value().value_or(static_cast<double>(plan_.eval_iters) * step_s / 3);
  return seconds +
         static_cast<double>(count_after(step_ - 1, plan_.total_steps, plan_.save_interval)) *
             save_s_.value().value_or(0);
}

}  // namespace hgt
