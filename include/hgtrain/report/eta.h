#pragma once

#include <cstdint>
#include <optional>

#include "hgtrain/report/step_record.h"

namespace hgt {

/// The mean of the first values; from then on a moving average.
class RunningMean {
 public:
  void add(double value);
  std::optional<double> value() const { return count_ > 0 ? std::optional(mean_) : std::nullopt; }

 private:
  double mean_ = 0;
  std::int64_t count_ = 0;
};

/// Estimates how long a run takes until its last step. Steps, evaluations and saves are timed
/// separately. The first steps are slow because they set things up; they do not count once there
/// are later ones. Before the first evaluation, each of its batches is assumed to take a third of a
/// step, because it is only a forward pass.
class Eta {
 public:
  struct Plan {
    std::int64_t total_steps = 0;
    std::int64_t eval_interval = 0;  ///< 0: never
    std::int64_t eval_iters = 0;     ///< batches of an evaluation
    std::int64_t save_interval = 0;  ///< 0: only at the end
  };
  explicit Eta(const Plan& plan) : plan_(plan) {}

  /// Training starts, or resumes in new processes, whose first steps are slow again.
  void restart();
  /// Call it with every step, in order.
  void add(const StepRecord& record);
  /// Seconds from the last step added to the end of the run; nullopt before the first step, after
  /// the last, and of a run without a length.
  std::optional<double> seconds() const;

 private:
  const Plan plan_;
  RunningMean step_s_, eval_s_, save_s_;
  std::int64_t step_ = 0;        ///< the last one added
  double elapsed_s_ = 0;         ///< when it was done
  std::int64_t steps_seen_ = 0;  ///< since the start
};

}  // namespace hgt
