#pragma once

#include <optional>
#include <string>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

struct TrainingConfig;

/// Updates the evaluation counters of `state`.
void count_evaluation(double eval_loss, TrainingState& state);

/// Why the run should end here, if it should: the validation loss (without evaluations:
/// `training_loss`, if given) has reached target_loss, or `patience` evaluations in a row brought
/// no new best.
std::optional<std::string> early_stop(const TrainingConfig& config, const TrainingState& state,
                                      std::optional<double> training_loss);

}  // namespace hgt
