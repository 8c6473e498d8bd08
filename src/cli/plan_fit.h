#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "train_plan.h"

namespace hgt {

/// Whether a job fits: on the CPU, all its workers into the free memory of this machine; with
/// --gpu, one worker into that GPU.
struct PlanFit {
  std::string gpu = {};  ///< "": the CPU
  std::int64_t asked = 0, room = 0;
  std::int64_t largest_micro_batch = 0;  ///< of this batch size; 0: none fits
  /// The share of the time for which pipeline stages would idle with that micro-batch.
  std::optional<double> idle_share = {};
  std::string hint = {};  ///< what would fit, "" if the job does
  bool fits() const { return asked <= room; }
  /// One line for the plan.
  std::string text() const;
  /// Error(kDevice) unless it fits.
  void require() const;
};

/// nullopt if that is not known: for GPUs without --gpu (the workers check), or if the machine does
/// not say how much memory is free. Error(kDevice) for a kind of GPU that is not known, or for
/// which there are no kernels.
std::optional<PlanFit> fit_of(const TrainPlan& plan, const std::string& gpu);

/// Error(kDevice) if the workers of this machine would offload more than is free of its memory:
/// page-locked memory cannot be swapped out. Does nothing if it is not known how much is free.
void require_room_to_offload(const TrainPlan& plan);

}  // namespace hgt
