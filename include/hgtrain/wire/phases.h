#pragma once

namespace hgt {

// Phases of Progress in which a rank only computes and communicates, so that the launcher may know
// from earlier steps how long it can stand still there. In all others it may have to wait for a
// disk, or does what it does once.

inline constexpr const char* kForwardPhase = "forward";
inline constexpr const char* kBackwardPhase = "backward";
inline constexpr const char* kUpdatePhase = "updating";
inline constexpr const char* kStepEndPhase = "waiting for the step";
inline constexpr const char* kEvaluationPhase = "evaluating";

}  // namespace hgt
