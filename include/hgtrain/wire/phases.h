#pragma once

namespace hgt {

/// A rank waits for its peers to connect, before it has anything to save.
inline constexpr const char* kConnectingPhase = "connecting";

// Phases of Progress in which a rank only computes and communicates, so that earlier steps show the
// launcher how long a rank may stay in them without progress. In other phases, a rank may wait for
// a disk, or does something that it does only once.

inline constexpr const char* kForwardPhase = "forward";
inline constexpr const char* kBackwardPhase = "backward";
inline constexpr const char* kUpdatePhase = "updating";
inline constexpr const char* kStepEndPhase = "waiting for the step";
inline constexpr const char* kEvaluationPhase = "evaluating";

}  // namespace hgt
