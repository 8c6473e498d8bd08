#pragma once

#include <vector>

#include "run_folder.h"
#include "train_plan.h"

namespace hgt {

/// The plans of a job whose attempts run on different numbers of workers. All train on the same
/// samples in the same batches; a worker's share of a batch follows from their number.
class ElasticPlan {
 public:
  /// All must outlive this.
  ElasticPlan(const TrainFlags& flags, const TrainPlan& first, const JobConfig& config)
      : flags_(flags), first_(first), config_(config) {}

  /// Whether that many workers can share a batch and the model.
  bool is_valid(int workers) const;
  /// Error if it cannot be made.
  TrainPlan plan_on(const std::vector<JobHost>& hosts) const;

 private:
  const TrainFlags& flags_;
  const TrainPlan& first_;
  const JobConfig& config_;
};

}  // namespace hgt
