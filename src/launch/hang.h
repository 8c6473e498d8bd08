#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hgtrain/wire/messages.h"

namespace hgt {

/// What is known of a rank that sends heartbeats.
struct Pulse {
  int rank = 0;
  Heartbeat last;
  std::int64_t heard_ns = 0;    ///< when the last heartbeat came
  std::int64_t changed_ns = 0;  ///< when a heartbeat last differed from the one before
  bool greeted = true;          ///< it has said hello; until then it may be slow to load

  /// The longest time that it stood still in steps or in evaluations before it continued.
  struct Habit {
    int rounds = 0;  ///< steps, or evaluations, that have ended
    std::int64_t longest_ns = 0;
  };
  Habit steps = {};
  Habit evaluations = {};

  void hear(const Heartbeat& beat, std::int64_t now_ns);
  /// How long it may make no progress in its phase: ten times as long as ever before, but at least
  /// 5 s and a tenth of `limit`. In its first steps and its first evaluation, and while it reads,
  /// saves, or does what it does only once: `limit`.
  std::chrono::nanoseconds budget(std::chrono::nanoseconds limit) const;
};

/// Whether a rank is behind another: in steps begun, then because it does not wait for its peers
/// and the other does, then in collectives entered.
bool is_behind(const Heartbeat& one, const Heartbeat& other);

struct Hang {
  int rank = 0;
  std::string message;  ///< for how long, where it is, and where another rank waits for it
  std::string hint;
};

/// The rank that has hung, if any: one from which nothing came for `silent` (`still` before its
/// hello). Otherwise, if all have stood still for longer than their budgets, which are at most
/// `still` (a rank that hangs makes the others wait), it is the rank that the others wait for: the
/// one behind, and of several the first that stopped.
std::optional<Hang> find_hang(std::span<const Pulse> pulses, std::int64_t now_ns,
                              std::chrono::milliseconds silent, std::chrono::milliseconds still);

}  // namespace hgt
