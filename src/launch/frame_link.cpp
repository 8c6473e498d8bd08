#include "frame_link.h"

#include <cerrno>
#include <unistd.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

// More than a socket holds; bounded, so that a peer that never stops does not keep the loop.
constexpr int kMaxReads = 16;

/// The queue a message waits in. Gone follows the output of its rank.
std::size_t queue_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kAgentStoreSet:
    case MessageKind::kAgentStoreGet:
    case MessageKind::kAgentStoreValue:
      return 1;
    case MessageKind::kOutput:
    case MessageKind::kGone:
    case MessageKind::kFilePart:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

FrameLink::FrameLink(asio::io_context& io, OwnedFd in, OwnedFd out, Events events)
    : events_(std::move(events)),
      in_(io, in.release()),
      out_(io, out.release()),
      frames_(kMaxBytes) {
  in_.native_non_blocking(true);
  out_.native_non_blocking(true);
  watch();
}

void FrameLink::close() {
  in_.close();
  out_.close();
}

// ---- receiving ----

void FrameLink::watch() {
  in_.async_wait(Descriptor::wait_read, [this](const std::error_code& error) {
    if (!error && in_.is_open() && read_frames()) watch();
  });
}

/// Reads what is there; false once the stream is of no further use.
bool FrameLink::read_frames() {
  std::array<char, 65536> buffer;
  for (int round = 0; round < kMaxReads && in_.is_open(); ++round) {
    const ssize_t bytes = ::read(in_.native_handle(), buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) break;
    if (bytes <= 0) {
      end("its connection has ended");
      break;
    }
    try {
      frames_.feed({buffer.data(), static_cast<std::size_t>(bytes)});
      while (in_.is_open()) {
        std::optional<Frame> frame = frames_.next();
        if (!frame) break;
        deliver(std::move(*frame));
      }
    } catch (const Error& e) {
      end(e.message());
    }
    if (static_cast<std::size_t>(bytes) < buffer.size()) break;  // that was all
  }
  return in_.is_open();
}

void FrameLink::deliver(Frame frame) {
  if (frame.kind == MessageKind::kPart) {
    if (frame.payload.empty()) refuse_payload();
    part_bytes_ += frame.payload.size() - 1;
    if (part_bytes_ > kMaxPartBytes) refuse_payload();
    parts_[static_cast<MessageKind>(frame.payload[0])].append(frame.payload, 1);
    return;
  }
  if (const auto start = parts_.find(frame.kind); start != parts_.end()) {
    part_bytes_ -= start->second.size();
    frame.payload = std::move(start->second) + frame.payload;
    parts_.erase(start);
  }
  events_.frame(frame);
}

void FrameLink::end(const std::string& why) {
  close();
  events_.ended(why);
}

// ---- sending ----

void FrameLink::send(MessageKind kind, std::string_view payload) {
  if (!out_.is_open()) return;
  std::deque<std::string>& queue = queues_[queue_of(kind)];
  constexpr std::size_t kPiece = kMaxBytes - 2;  // a part has its own kind and that of the message
  while (payload.size() > kPiece) {
    std::string part(1, static_cast<char>(kind));
    queue.push_back(encode_frame(MessageKind::kPart, part.append(payload.substr(0, kPiece))));
    payload.remove_prefix(kPiece);
  }
  queue.push_back(encode_frame(kind, payload));
  if (!waiting_) pump();
}

/// The first frame of the first queue that has one.
bool FrameLink::take_next() {
  for (std::deque<std::string>& queue : queues_) {
    if (queue.empty()) continue;
    sending_ = std::move(queue.front());
    sent_ = 0;
    queue.pop_front();
    return true;
  }
  return false;
}

void FrameLink::pump() {
  while (sent_ < sending_.size() || take_next()) {
    const ssize_t bytes =
        ::write(out_.native_handle(), sending_.data() + sent_, sending_.size() - sent_);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) break;
    if (bytes < 0) return out_.close();  // nobody reads any more; the end of in_ says the rest
    sent_ += static_cast<std::size_t>(bytes);
  }
  waiting_ = sent_ < sending_.size();
  if (!waiting_) return;
  out_.async_wait(Descriptor::wait_write, [this](const std::error_code& error) {
    if (!error && out_.is_open()) pump();
  });
}

}  // namespace hgt
