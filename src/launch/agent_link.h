#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "hgtrain/base/clock.h"
#include "hgtrain/base/owned_fd.h"
#include "hgtrain/launch/preflight.h"

#include "agent_messages.h"
#include "frame_link.h"
#include "lease.h"
#include "output_sink.h"

namespace hgt {

/// The coordinator's end of the stream to the agent of one host, for the whole job. It shows what
/// the host's workers print, and lets the agent send more when the console has taken it. All other
/// messages go to the coordinator. Must outlive the loop.
class AgentLink {
 public:
  struct Events {
    std::function<void(AgentLink&, const Frame& frame)> frame;
    std::function<void(const std::string& text)> notice;
    /// The stream has ended, or the lease has expired.
    std::function<void(AgentLink&, const std::string& why)> lost;
  };
  AgentLink(asio::io_context& io, std::string host, OwnedFd in, OwnedFd out, OutputSink& console,
            Events events);

  const std::string& host() const { return host_; }
  /// A time of the agent's clock as this process's clock shows it, wrong by at most
  /// uncertainty_ns().
  std::int64_t here_ns(std::int64_t at_ns) const { return at_ns - lease_.peer_ahead_ns(); }
  std::int64_t uncertainty_ns() const { return std::max<std::int64_t>(0, lease_.uncertainty_ns()); }
  /// How far its clock is ahead of ours, given its HostFacts::wall_ns. nullopt: not measured yet.
  std::optional<ClockOffset> clock_offset(std::int64_t wall_ns) const {
    if (lease_.uncertainty_ns() < 0) return std::nullopt;
    return ClockOffset{lease_.peer_ahead_ns() + wall_ns - clock_zero_ns(), uncertainty_ns()};
  }
  /// For an agent on another machine: from now on, each side counts the other as lost after that
  /// long without a message.
  void start_lease(std::chrono::milliseconds lease);
  std::chrono::nanoseconds lease() const { return lease_.length(); }  ///< 0 = none
  std::chrono::nanoseconds silence() const {  ///< for how long nothing has come; 0 without a lease
    return std::chrono::nanoseconds(lease_.length().count() == 0 ? 0
                                                                 : now_ns() - lease_.heard_ns());
  }
  std::chrono::nanoseconds standstill() const { return lease_.standstill(); }
  /// Whether the agent has counted this process as lost, because that stood still for too long.
  bool has_given_up_here() const { return lease().count() > 0 && standstill() >= lease(); }
  /// If the agent is lost: when that happened. If only silence shows it, that was when it was last
  /// heard.
  std::int64_t lost_ns() const { return lost_ns_; }
  bool is_lost() const { return lost_ns_ != 0; }
  bool was_silent() const { return was_silent_; }  ///< and that is all that shows it
  /// If the agent is lost: the time after which nothing that it has started can be left, because
  /// each agent and each guard kills what it has started if it hears nothing for a lease.
  std::int64_t fenced_ns() const { return lease_.heard_ns() + 2 * lease_.length().count(); }
  template <class Message>
  void send(const Message& message) {
    link_.send(message);
  }
  /// Nothing happens any more. The loop may still refer to this, but only in what is queued there.
  void close();

 private:
  void on_frame(const Frame& frame);
  void show(const Output& output);
  void give_credit();

  const std::string host_;
  OutputSink& console_;
  const Events events_;
  asio::steady_timer credit_timer_;
  std::uint32_t owed_bytes_ = 0;
  std::int64_t lost_ns_ = 0;
  bool was_silent_ = false;
  FrameLink link_;
  Lease lease_;
};

}  // namespace hgt
