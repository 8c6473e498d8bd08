#include "lease.h"

#include <algorithm>
#include <utility>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/log.h"

namespace hgt {
namespace {

constexpr std::chrono::milliseconds kLastCall{100};
constexpr std::int64_t kSilentNs = 2'000'000'000;
constexpr std::int64_t kDriftParts = 10'000;  // two clocks part by 1/10,000 of the time at most

}  // namespace

Lease::Lease(asio::io_context& io, FrameLink& link, std::string peer, Standstill standstill,
             std::function<void()> expired)
    : link_(link),
      peer_(std::move(peer)),
      standstill_(standstill),
      expired_(std::move(expired)),
      timer_(io) {}

void Lease::start(std::chrono::milliseconds lease) {
  lease_ = lease;
  is_last_call_ = false;
  heard_ns_ = ticked_ns_ = now_ns();
  longest_tick_ns_ = 0;
  tick();
}

void Lease::note_time() {
  const std::int64_t now = now_ns(), time = now - ticked_ns_;
  if (time >= longest_tick_ns_ || now - longest_tick_at_ns_ > lease_.count()) {
    longest_tick_ns_ = time;
    longest_tick_at_ns_ = now;
  }
  if (!has_passed()) ticked_ns_ = now;
}

bool Lease::has_passed() const {
  return standstill_ == Standstill::kCounts && lease_.count() > 0 &&
         now_ns() - ticked_ns_ >= lease_.count();
}

void Lease::hear() {
  const std::int64_t before_ns = std::exchange(heard_ns_, now_ns());
  if (std::exchange(is_silent_, false))
    log_info("messages from {} arrive again after {:.1f} s", peer_, (heard_ns_ - before_ns) * 1e-9);
}

/// As in NTP, the round trip took all the time except that for which the peer held the beat.
void Lease::hear(const Beat& beat) {
  const bool is_first = std::exchange(beat_ns_, beat.at_ns) == 0;
  beat_at_ns_ = now_ns();
  if (is_first)
    send_beat();  // a job may end before the next one: the peer's clock counts then, too
  if (beat.answers_ns == 0) return;
  const std::int64_t round_trip = beat_at_ns_ - beat.answers_ns - beat.held_ns;
  if (round_trip < 0 || (round_trip_ns_ >= 0 && round_trip / 2 >= uncertainty_ns())) return;
  round_trip_ns_ = round_trip;
  measured_at_ns_ = beat_at_ns_;
  peer_ahead_ns_ = beat.at_ns + round_trip / 2 - beat_at_ns_;
}

std::int64_t Lease::uncertainty_ns() const {
  if (round_trip_ns_ < 0) return -1;
  return round_trip_ns_ / 2 + (now_ns() - measured_at_ns_) / kDriftParts;
}

std::chrono::nanoseconds Lease::standstill() const {
  if (ticked_ns_ == 0) return {};
  // The end of the stream may be handled before the tick that is late.
  return std::chrono::nanoseconds(std::max(longest_tick_ns_, now_ns() - ticked_ns_));
}

void Lease::send_beat() {
  const std::int64_t now = now_ns();
  link_.send(Beat{now, beat_ns_, beat_ns_ == 0 ? 0 : now - beat_at_ns_});
}

void Lease::tick() {
  const std::int64_t now = now_ns();
  if (standstill_ == Standstill::kExcused && now - ticked_ns_ > lease_.count() / 3) heard_ns_ = now;
  // What the peer sent before it gave this process up may say how the job has ended.
  if (has_passed() && !std::exchange(is_last_call_, true)) return tick_after(kLastCall);
  if (has_passed() || now - heard_ns_ >= lease_.count()) return expired_();
  if (now - heard_ns_ >= kSilentNs && !std::exchange(is_silent_, true))
    log_info("nothing has come from {} for 2 s", peer_);
  note_time();
  send_beat();
  tick_after(std::min<std::chrono::nanoseconds>(std::chrono::seconds(1), lease_ / 5));
}

void Lease::tick_after(std::chrono::nanoseconds time) {
  timer_.expires_after(time);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) tick();
  });
}

}  // namespace hgt
