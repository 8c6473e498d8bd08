#include "hgtrain/wire/frame.h"

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {
namespace {

constexpr std::size_t kLengthBytes = 4;

/// Whether `kind` lies between two kinds, both included.
bool is_from(std::uint8_t kind, MessageKind first, MessageKind last) {
  return kind >= static_cast<std::uint8_t>(first) && kind <= static_cast<std::uint8_t>(last);
}

bool is_known(std::uint8_t kind) {
  return is_from(kind, MessageKind::kHello, MessageKind::kEvent) ||
         is_from(kind, MessageKind::kStoreValue, MessageKind::kShowStacks) ||
         is_from(kind, MessageKind::kPortReserved, MessageKind::kRankStopped) ||
         is_from(kind, MessageKind::kReservePort, MessageKind::kRemoteCommand) ||
         is_from(kind, MessageKind::kPart, MessageKind::kJobEnded) ||
         is_from(kind, MessageKind::kAskStatus, MessageKind::kAskConsole) ||
         is_from(kind, MessageKind::kJobStatus, MessageKind::kConsoleText);
}

}  // namespace

std::string encode_frame(MessageKind kind, std::string_view payload) {
  const std::size_t length = payload.size() + 1;
  if (length > kMaxFrameBytes)
    throw Error(ErrorKind::kInternal,
                fmt::format("a message of {} bytes is longer than a frame may be ({})",
                            payload.size(), kMaxFrameBytes - 1));
  std::string out;
  out.reserve(kLengthBytes + length);
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    out.push_back(static_cast<char>(length >> (8 * i)));
  out.push_back(static_cast<char>(kind));
  return out.append(payload);
}

void FrameReader::feed(std::string_view bytes) {
  buffer_.erase(0, start_);
  start_ = 0;
  buffer_.append(bytes);
}

std::optional<Frame> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(start_);
  if (rest.size() < kLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= std::size_t{static_cast<std::uint8_t>(rest[i])} << (8 * i);
  if (length == 0 || length > max_bytes_)
    throw Error(ErrorKind::kPeer, fmt::format("a frame claims {} bytes, but at most {} are allowed",
                                              length, max_bytes_));
  if (rest.size() < kLengthBytes + length) return std::nullopt;
  const auto kind = static_cast<std::uint8_t>(rest[kLengthBytes]);
  if (!is_known(kind))
    throw Error(ErrorKind::kPeer, fmt::format("a frame has the unknown kind {}", kind));
  start_ += kLengthBytes + length;
  return Frame{static_cast<MessageKind>(kind),
               std::string(rest.substr(kLengthBytes + 1, length - 1))};
}

}  // namespace hgt
