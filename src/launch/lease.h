#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent_messages.h"
#include "frame_link.h"

namespace hgt {

/// One end of a stream between two machines. A peer from which nothing has come for the lease
/// counts as lost, even if the stream looks open. Each end sends a Beat every second, so that the
/// other hears it. The log names a peer that is silent for 2 s.
class Lease {
 public:
  static constexpr std::chrono::milliseconds kDefault{15'000};

  enum class Standstill {
    kExcused,  ///< time in which this process itself stood still does not count
    kCounts,   ///< it counts, because the peer has given this process up meanwhile
  };

  /// The lease runs from start() on. `expired` is called once.
  Lease(asio::io_context& io, FrameLink& link, std::string peer, Standstill standstill,
        std::function<void()> expired);

  void start(std::chrono::milliseconds lease);
  void stop() { timer_.cancel(); }
  /// Whether this process has stood still for the lease, so the peer may have given it up
  /// (kCounts).
  bool has_passed() const;
  /// Call it for every message from the peer.
  void hear();
  void hear(const Beat& beat);

  std::chrono::nanoseconds length() const { return lease_; }
  std::int64_t heard_ns() const { return heard_ns_; }

  /// The longest time for which this process has stood still lately, which is within about a lease.
  std::chrono::nanoseconds standstill() const;

  /// The peer's clock minus ours according to one round trip of a beat, and by how much that can be
  /// wrong now: half of the round trip and what the clocks have drifted apart since. A later round
  /// trip counts if it says more. -1 before the first.
  std::int64_t peer_ahead_ns() const { return peer_ahead_ns_; }
  std::int64_t uncertainty_ns() const;

 private:
  void note_time();
  void send_beat();
  void tick();
  void tick_after(std::chrono::nanoseconds time);

  FrameLink& link_;
  const std::string peer_;
  const Standstill standstill_;
  const std::function<void()> expired_;
  asio::steady_timer timer_;
  std::chrono::nanoseconds lease_{0};
  std::int64_t heard_ns_ = 0;
  bool is_last_call_ = false;  // for what has come while this process stood still
  bool is_silent_ = false;     // silent for 2 s, which was logged
  std::int64_t ticked_ns_ = 0;
  std::int64_t longest_tick_ns_ = 0, longest_tick_at_ns_ = 0;  // lately, and when it ended
  std::int64_t beat_ns_ = 0;     // the peer's time in its last beat, 0 = none yet
  std::int64_t beat_at_ns_ = 0;  // when that came
  std::int64_t round_trip_ns_ = -1;
  std::int64_t measured_at_ns_ = 0;  // when that round trip ended
  std::int64_t peer_ahead_ns_ = 0;
};

}  // namespace hgt
