#include "hang.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace hgt {
namespace {

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::string place(const Heartbeat& beat) {
  std::string text = fmt::format("in '{}'", beat.phase);
  if (!beat.action.empty()) text += fmt::format(" ({})", beat.action);
  text += fmt::format(" at step {}, collective {}", beat.begun, beat.collective);
  if (beat.waits_in.empty()) return text;
  if (beat.waits_for == 0) return text + ", waiting for " + beat.waits_in;
  return text + fmt::format(", waiting for collective {} of '{}'", beat.waits_for, beat.waits_in);
}

/// The less of a rank, the further it is behind.
auto advance(const Heartbeat& beat) {
  return std::tuple(beat.begun, !beat.waits_in.empty(), beat.collective);
}

/// Where the rank furthest ahead stands, `odd` left out.
std::string where_others_are(std::span<const Pulse> pulses, const Pulse& odd) {
  const Pulse* other = nullptr;
  for (const Pulse& pulse : pulses)
    if (pulse.rank != odd.rank && (!other || advance(pulse.last) > advance(other->last)))
      other = &pulse;
  return other ? fmt::format("; rank {} stands {}", other->rank, place(other->last)) : "";
}

}  // namespace

bool is_behind(const Heartbeat& one, const Heartbeat& other) {
  return advance(one) < advance(other);
}

std::optional<Hang> find_hang(std::span<const Pulse> pulses, std::int64_t now_ns,
                              std::chrono::milliseconds silent, std::chrono::milliseconds still) {
  const auto older = [now_ns](std::int64_t since_ns, std::chrono::milliseconds limit) {
    return now_ns - since_ns >= std::chrono::nanoseconds(limit).count();
  };
  const Pulse* quiet = nullptr;
  for (const Pulse& pulse : pulses)
    if (older(pulse.heard_ns, pulse.greeted ? silent : still) &&
        (!quiet || pulse.heard_ns < quiet->heard_ns))
      quiet = &pulse;
  if (quiet)
    return Hang{quiet->rank, fmt::format("has hung: no sign of life for {:.0f} s, {}{}",
                                         seconds(now_ns - quiet->heard_ns), place(quiet->last),
                                         where_others_are(pulses, *quiet))};
  if (pulses.empty()) return std::nullopt;
  if (!std::all_of(pulses.begin(), pulses.end(),
                   [&](const Pulse& p) { return older(p.changed_ns, still); }))
    return std::nullopt;
  const auto odd =
      std::min_element(pulses.begin(), pulses.end(), [](const Pulse& a, const Pulse& b) {
        return std::tuple(advance(a.last), a.changed_ns) <
               std::tuple(advance(b.last), b.changed_ns);
      });
  return Hang{odd->rank, fmt::format("has hung: no progress for {:.0f} s, {}{}",
                                     seconds(now_ns - odd->changed_ns), place(odd->last),
                                     where_others_are(pulses, *odd))};
}

}  // namespace hgt
