#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hgtrain/wire/messages.h"

namespace hgt {

/// What the heartbeats of a rank say.
struct Pulse {
  int rank = 0;
  Heartbeat last;
  std::int64_t heard_ns = 0;    ///< when the last heartbeat came or, before any, it was stopped
  std::int64_t changed_ns = 0;  ///< when a heartbeat last differed from the one before
  bool greeted = true;          ///< it has sent its hello; until then it may be slow to load
  bool stopped = false;         ///< its process has been stopped by a signal

  /// The longest pause without progress in steps, or in evaluations, after which the rank
  /// continued.
  struct Pauses {
    int rounds = 0;  ///< steps, or evaluations, that have ended
    std::int64_t longest_ns = 0;
  };
  Pauses steps = {};
  Pauses evaluations = {};

  void hear(const Heartbeat& beat, std::int64_t now_ns);
  /// How long the rank may make no progress in its phase: ten times its longest pause so far, but
  /// at least 5 s and a tenth of `limit`. In its first steps and its first evaluation, and while it
  /// reads, saves, or does something only once, it is `limit`.
  std::chrono::nanoseconds budget(std::chrono::nanoseconds limit) const;
};

/// Whether a rank is behind another: in steps begun, then because it does not wait for its peers
/// and the other does, then in collectives entered.
bool is_behind(const Heartbeat& one, const Heartbeat& other);

struct Hang {
  int rank = 0;
  std::string message;  ///< for how long it hangs, where it is, and where another rank waits for it
  std::string hint;
  bool all_wait =
      false;  ///< it waits for others or its device, as all ranks do: any may be the cause
};

/// The rank that hangs, if any. That is a rank from which nothing came for `silence_limit` (for
/// `hang_limit` before its hello, unless it is stopped). Otherwise, if all ranks have made no
/// progress for longer than their budgets, which are at most `hang_limit`, it is the rank that the
/// others wait for: the one behind the others and, among several, the one that stopped first.
std::optional<Hang> find_hang(std::span<const Pulse> pulses, std::int64_t now_ns,
                              std::chrono::milliseconds silence_limit,
                              std::chrono::milliseconds hang_limit);

/// The rank that has been stopped for the longest time, if that is at least `limit`. For ranks that
/// send no heartbeats.
std::optional<Hang> find_stopped(std::span<const Pulse> pulses, std::int64_t now_ns,
                                 std::chrono::milliseconds limit);

}  // namespace hgt
