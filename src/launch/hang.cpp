#include "hang.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "hgtrain/wire/phases.h"

namespace hgt {
namespace {

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// "in 'forward' (F0.2) at step 6, collective 9, waiting for collective 3 of 'tensor'".
std::string place(const Heartbeat& beat) {
  std::string text = fmt::format("in '{}'", beat.phase);
  if (!beat.action.empty()) text += fmt::format(" ({})", beat.action);
  text += fmt::format(" at step {}, collective {}", beat.begun, beat.collective);
  if (beat.waits_in.empty()) return text;
  if (beat.waits_for == 0) return text + ", waiting for " + beat.waits_in;
  return text + fmt::format(", waiting for collective {} of '{}'", beat.waits_for, beat.waits_in);
}

/// The first steps, which also prepare kernels and connections, say nothing about later ones. The
/// step counter also moves when a run resumes.
constexpr int kFirstSteps = 3;
constexpr int kTimesAsLong = 10;
constexpr std::chrono::seconds kMinBudget{5};  // some heartbeats

constexpr const char* kLookForStopper =
    "look for what has stopped the process: kill -STOP, or a scheduler that suspends jobs";

bool is_in_step(const Heartbeat& beat) {
  const std::array phases{kForwardPhase, kBackwardPhase, kUpdatePhase, kStepEndPhase};
  return std::ranges::find(phases, beat.phase) != phases.end();
}

bool is_in_evaluation(const Heartbeat& beat) {
  return beat.phase == kEvaluationPhase;
}

bool is_the_same(const Heartbeat& a, const Heartbeat& b) {
  return std::tie(a.step, a.collective, a.phase, a.work, a.waits_for, a.waits_in) ==
         std::tie(b.step, b.collective, b.phase, b.work, b.waits_for, b.waits_in);
}

/// How far a rank has come: the smaller, the further it is behind.
auto advance(const Heartbeat& beat) {
  return std::tuple(beat.begun, !beat.waits_in.empty(), beat.collective);
}

/// The rank that is furthest ahead, apart from `hung`; nullptr if there is no other.
const Pulse* furthest_other(std::span<const Pulse> pulses, const Pulse& hung) {
  const Pulse* other = nullptr;
  for (const Pulse& pulse : pulses)
    if (pulse.rank != hung.rank && (!other || advance(pulse.last) > advance(other->last)))
      other = &pulse;
  return other;
}

/// Where that rank is; "" if there is none.
std::string place_of_other(const Pulse* other) {
  return other ? fmt::format("; rank {} is {}", other->rank, place(other->last)) : "";
}

}  // namespace

bool is_behind(const Heartbeat& one, const Heartbeat& other) {
  return advance(one) < advance(other);
}

void Pulse::hear(const Heartbeat& beat, std::int64_t now_ns) {
  heard_ns = now_ns;
  if (!is_the_same(beat, last)) {
    const std::int64_t still_ns = now_ns - changed_ns;
    if (is_in_step(last) && steps.rounds >= kFirstSteps - 1)
      steps.longest_ns = std::max(steps.longest_ns, still_ns);
    if (is_in_evaluation(last)) {
      evaluations.longest_ns = std::max(evaluations.longest_ns, still_ns);
      if (!is_in_evaluation(beat)) ++evaluations.rounds;
    }
    if (beat.step != last.step) ++steps.rounds;
    changed_ns = now_ns;
  }
  last = beat;
}

std::chrono::nanoseconds Pulse::budget(std::chrono::nanoseconds limit) const {
  const Pauses* const pauses = is_in_step(last) && steps.rounds >= kFirstSteps    ? &steps
                               : is_in_evaluation(last) && evaluations.rounds > 0 ? &evaluations
                                                                                  : nullptr;
  if (!pauses) return limit;
  return std::min(limit, std::max({std::chrono::nanoseconds(kTimesAsLong * pauses->longest_ns),
                                   limit / 10, std::chrono::nanoseconds(kMinBudget)}));
}

std::optional<Hang> find_hang(std::span<const Pulse> pulses, std::int64_t now_ns,
                              std::chrono::milliseconds silence_limit,
                              std::chrono::milliseconds hang_limit) {
  const auto older = [now_ns](std::int64_t since_ns, std::chrono::nanoseconds limit) {
    return now_ns - since_ns >= limit.count();
  };
  const Pulse* quiet = nullptr;
  for (const Pulse& pulse : pulses)
    if (older(pulse.heard_ns, pulse.greeted || pulse.stopped ? silence_limit : hang_limit) &&
        (!quiet || pulse.heard_ns < quiet->heard_ns))
      quiet = &pulse;
  if (quiet) {
    const Pulse* const other = furthest_other(pulses, *quiet);
    const bool is_awaited = other && !other->last.waits_in.empty();
    return Hang{
        quiet->rank,
        fmt::format("rank {} has not answered for {:.0f} s{}\n    it was last heard {}{}",
                    quiet->rank, seconds(now_ns - quiet->heard_ns),
                    is_awaited ? fmt::format("; rank {} waits for it", other->rank) : "",
                    place(quiet->last), place_of_other(other)),
        "look whether something has stopped the process (a debugger, kill -STOP), or whether the "
        "machine swaps or sleeps"};
  }
  if (pulses.empty()) return std::nullopt;
  if (!std::all_of(pulses.begin(), pulses.end(),
                   [&](const Pulse& p) { return older(p.changed_ns, p.budget(hang_limit)); }))
    return std::nullopt;
  const auto hung =
      std::min_element(pulses.begin(), pulses.end(), [](const Pulse& a, const Pulse& b) {
        return std::tuple(advance(a.last), a.changed_ns) <
               std::tuple(advance(b.last), b.changed_ns);
      });
  const bool all_wait = pulses.size() > 1 && std::ranges::all_of(pulses, [](const Pulse& pulse) {
                          return !pulse.last.waits_in.empty();
                        });
  return Hang{
      hung->rank,
      fmt::format("no progress for {:.0f} s: rank {} is {}{}", seconds(now_ns - hung->changed_ns),
                  hung->rank, place(hung->last), place_of_other(furthest_other(pulses, *hung))),
      hung->stopped ? kLookForStopper
      : all_wait
          ? "every rank waits, so the network between their hosts may be cut: hgtrain "
            "doctor --links, with these hosts, measures it; the log of each rank ends with the "
            "functions that its threads are in"
          : "the log of each rank ends with the functions that its threads are in; if the rank "
            "was only slow, raise distributed.timeout_minutes",
      all_wait};
}

std::optional<Hang> find_stopped(std::span<const Pulse> pulses, std::int64_t now_ns,
                                 std::chrono::milliseconds limit) {
  const auto first = std::ranges::min_element(pulses, {}, &Pulse::heard_ns);
  if (first == pulses.end() || now_ns - first->heard_ns < std::chrono::nanoseconds(limit).count())
    return std::nullopt;
  return Hang{first->rank,
              fmt::format("rank {} has been stopped by a signal for {:.0f} s", first->rank,
                          seconds(now_ns - first->heard_ns)),
              kLookForStopper};
}

}  // namespace hgt
