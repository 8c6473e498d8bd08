#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "hgtrain/wire/frame.h"

#include "payload.h"

namespace hgt {

// What another command and the launcher of a run tell each other over the run's socket
// (job_socket.h). Each struct is the payload of one kind of frame (payload.h). Frames have at most
// kMaxFrameBytes; those of a command at most kMaxAskBytes.

inline constexpr std::size_t kMaxAskBytes = 4096;
inline constexpr const char* kSocketName = "control.sock";  // in the run folder

struct AskStatus {
  static constexpr MessageKind kKind = MessageKind::kAskStatus;
  static auto fields(auto&) { return std::tie(); }
};

struct AskStop {
  static constexpr MessageKind kKind = MessageKind::kAskStop;
  bool now = false;  ///< kill the ranks, save nothing
  static auto fields(auto& m) { return std::tie(m.now); }
};

/// Asks for what the console shows from now on.
struct AskConsole {
  static constexpr MessageKind kKind = MessageKind::kAskConsole;
  static auto fields(auto&) { return std::tie(); }
};

/// The answer to AskStatus.
struct JobStatus {
  static constexpr MessageKind kKind = MessageKind::kJobStatus;
  std::string json;  ///< an object
  static auto fields(auto& m) { return std::tie(m.json); }
};

/// The answer to AskStop, at once. The stream ends when the launcher does.
struct JobStopping {
  static constexpr MessageKind kKind = MessageKind::kJobStopping;
  static auto fields(auto&) { return std::tie(); }
};

/// The answers to AskConsole; the first comes at once and has no text.
struct ConsoleText {
  static constexpr MessageKind kKind = MessageKind::kConsoleText;
  bool is_error = false;       ///< on stderr, not on stdout
  std::uint64_t left_out = 0;  ///< bytes before the text that the command was too slow for
  std::string text = {};
  bool is_last = false;  ///< the launcher ends; a stream that ends without it was cut off
  static auto fields(auto& m) { return std::tie(m.is_error, m.left_out, m.text, m.is_last); }
};

/// The launcher takes no request from this command.
struct JobRefusal {
  static constexpr MessageKind kKind = MessageKind::kJobRefusal;
  std::string why;
  static auto fields(auto& m) { return std::tie(m.why); }
};

template <class Message>
std::string frame_of(const Message& message) {
  return encode_frame(Message::kKind, encode_payload(message));
}

}  // namespace hgt
