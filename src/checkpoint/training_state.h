#pragma once

#include <string>
#include <string_view>

#include "hgtrain/checkpoint/checkpoint.h"

namespace hgt {

inline constexpr const char* kTrainingStateName = "trainer_state.json";

/// trainer_state.json: the counters of a run; numbers keep every bit.
std::string training_state_text(const TrainingState& state);
TrainingState parse_training_state(std::string_view text);  ///< Error(kData) if it is damaged

}  // namespace hgt
