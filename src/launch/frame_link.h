#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "hgtrain/base/owned_fd.h"
#include "hgtrain/wire/frame.h"

#include "payload.h"

namespace hgt {

/// One end of the stream between the coordinator and an agent. Never blocks. Messages wait in three
/// queues, control first, then the store, then output and files. So a heartbeat waits for at most
/// one frame and what the kernel already holds, no matter how much the workers print. Within a
/// queue the order is kept. A payload that is too long for one frame goes in parts.
///
/// To be used on the loop's thread only. Must outlive what it has queued on the loop.
class FrameLink {
 public:
  static constexpr std::size_t kMaxBytes = 64 << 10;  ///< of a frame: its kind and payload
  /// The limit on all payloads together that are not complete yet.
  static constexpr std::size_t kMaxPartBytes = 64 << 20;

  struct Events {
    /// A whole message. If this throws an Error, the link is closed with its text.
    std::function<void(const Frame& frame)> frame;
    /// The peer has ended the stream, or broken the protocol. Called once, and not after close().
    std::function<void(const std::string& why)> ended;
  };

  /// Reads from `in` and writes to `out`, which it makes non-blocking. SIGPIPE must be ignored.
  FrameLink(asio::io_context& io, OwnedFd in, OwnedFd out, Events events);

  template <class Message>
  void send(const Message& message) {
    send(Message::kKind, encode_payload(message));
  }
  /// Queues a message; nothing happens if the peer is gone.
  void send(MessageKind kind, std::string_view payload);

  bool is_open() const { return in_.is_open(); }
  void close();

 private:
  using Descriptor = asio::posix::stream_descriptor;
  void watch();
  bool read_frames();
  void deliver(Frame frame);
  void end(const std::string& why);
  void pump();
  bool take_next();

  const Events events_;
  Descriptor in_;
  Descriptor out_;
  FrameReader frames_;
  std::map<MessageKind, std::string> parts_;  // of payloads that are not whole yet
  std::size_t part_bytes_ = 0;
  std::array<std::deque<std::string>, 3> queues_;
  std::string sending_;  // the frame that is being written
  std::size_t sent_ = 0;
  bool waiting_ = false;  // for room in out_
};

}  // namespace hgt
