#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent_messages.h"
#include "console_queue.h"
#include "frame_link.h"
#include "owned_fd.h"

namespace hgt {

/// The coordinator's end of the stream to the agent of one host, for the whole job. It shows what
/// the host's workers print and lets the agent send more when the console has taken it; all else
/// goes to the coordinator. Must outlive the loop.
class AgentLink {
 public:
  struct Events {
    std::function<void(AgentLink&, const Frame& frame)> frame;
    std::function<void(const std::string& text)> notice;
    /// Nothing comes any more.
    std::function<void(AgentLink&, const std::string& why)> lost;
  };
  AgentLink(asio::io_context& io, std::string host, OwnedFd in, OwnedFd out, ConsoleQueue& console,
            Events events);

  const std::string& host() const { return host_; }
  /// A time of the agent's clock as this process's clock shows it. It can be late by as long as a
  /// message takes.
  std::int64_t here_ns(std::int64_t at_ns) const { return at_ns + offset_ns_; }
  void set_clock(std::int64_t agent_ns, std::int64_t here_ns) { offset_ns_ = here_ns - agent_ns; }
  template <class Message>
  void send(const Message& message) {
    link_.send(message);
  }

 private:
  void on_frame(const Frame& frame);
  void show(const Output& output);
  void give_credit();

  const std::string host_;
  ConsoleQueue& console_;
  const Events events_;
  asio::steady_timer credit_timer_;
  std::uint32_t owed_bytes_ = 0;
  std::int64_t offset_ns_ = 0;  // from the agent's clock to ours
  FrameLink link_;
};

}  // namespace hgt
