#include "hang_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "hgtrain/base/clock.h"

namespace hgt {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kPeriod{1};
constexpr milliseconds kSilentLimit{30'000};
constexpr std::int64_t kStoodStillNs = 5'000'000'000;

}  // namespace

HangWatch::HangWatch(asio::io_context& io, AttemptRecord& attempt,
                     std::function<void(const Hang&)> found)
    : attempt_(attempt), found_(std::move(found)), timer_(io) {}

void HangWatch::start() {
  is_on_ = attempt_.spec.hang_limit.count() > 0;
  if (is_on_) wait();
}

void HangWatch::stop() {
  is_on_ = false;
  timer_.cancel();
}

void HangWatch::wait() {
  timer_.expires_after(kPeriod);
  timer_.async_wait([this](const std::error_code& error) {
    if (error || !is_on_) return;
    check();
    if (is_on_) wait();
  });
}

/// A gap means that this process stood still (Ctrl-Z, a machine asleep), not the workers.
void HangWatch::excuse_gap() {
  const std::int64_t now = now_ns();
  const bool stood_still =
      attempt_.spec.hang_limit.count() > 0 && checked_ns_ > 0 && now - checked_ns_ > kStoodStillNs;
  checked_ns_ = now;
  if (stood_still)
    for (RankView& rank : attempt_.ranks) rank.pulse.heard_ns = rank.pulse.changed_ns = now;
}

void HangWatch::check() {
  excuse_gap();
  const milliseconds limit = attempt_.spec.hang_limit;
  if (const auto hang = hang_after(std::min(kSilentLimit, limit), limit)) found_(*hang);
}

/// Ranks that have failed are not considered. Of those that send no heartbeats it is only known
/// whether they are stopped.
std::optional<Hang> HangWatch::hang_after(milliseconds silent, milliseconds still) const {
  std::vector<Pulse> pulses, stopped;
  for (const RankView& rank : attempt_.ranks) {
    if (rank.end || rank.is_gone || attempt_.failures.count(rank.pulse.rank)) continue;
    if (obeys_commands(attempt_, rank))
      pulses.push_back(rank.pulse);
    else if (rank.pulse.stopped)
      stopped.push_back(rank.pulse);
  }
  if (const auto hang = find_stopped(stopped, now_ns(), silent)) return hang;
  return find_hang(pulses, now_ns(), silent, still);
}

std::optional<Hang> HangWatch::straggler_behind(const RankView& waiting) {
  excuse_gap();  // its report may be handled before the check that is late
  const milliseconds limit = std::min(kSilentLimit, attempt_.spec.hang_limit / 2);
  if (limit.count() == 0) return std::nullopt;
  const auto hang = hang_after(limit, limit);
  if (!hang) return std::nullopt;
  const RankView& hung = attempt_.ranks[static_cast<std::size_t>(hang->rank)];
  return is_behind(hung.pulse.last, waiting.pulse.last) ? hang : std::nullopt;
}

}  // namespace hgt
