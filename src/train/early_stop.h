#pragma once

#include <optional>
#include <string>

#include "hgtrain/checkpoint/checkpoint.h"
#include "hgtrain/config/config.h"

namespace hgt {

/// Why the run should end after this step, if it should: target_loss is reached (by the validation
/// loss where evaluations are on, else by the training loss), or `patience` evaluations in a row
/// brought no new best. Keeps the evaluation counters of `state`.
std::optional<std::string> early_stop(const TrainingConfig& config, double loss,
                                      std::optional<double> eval_loss, TrainingState& state);

}  // namespace hgt
