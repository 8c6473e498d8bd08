#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hgt {

/// Kinds of messages: between a worker and its agent, between an agent and the coordinator, and
/// between another command and the launcher of a run. The numbers are the protocol: never reuse
/// one.
enum class MessageKind : std::uint8_t {
  // worker to agent
  kHello = 1,  ///< must be the first frame of a worker
  kStoreSet = 2,
  kStoreGet = 3,
  kHeartbeat = 4,
  kEvent = 5,
  // agent to worker
  kStoreValue = 16,
  kStop = 17,
  kCheckpoint = 18,
  kAbort = 19,
  kShowStacks = 20,
  // agent to coordinator (launch/agent_messages.h)
  kPortReserved = 32,
  kSpawned = 33,
  kNotSpawned = 34,
  kRankHeartbeat = 35,
  kRankEvent = 36,
  kChannelBroken = 37,
  kEnded = 38,
  kGone = 39,
  kOutput = 40,
  kNotice = 41,
  kAgentStoreSet = 42,
  kAgentStoreGet = 43,
  kAgentHello = 44,
  kJoin = 45,
  kSignalReceived = 46,
  kHostFacts = 47,
  kLinkListening = 48,
  kLinkMeasured = 49,
  kPullPart = 50,
  kPullHash = 51,
  kFilesReady = 52,
  kRankStopped = 53,
  // coordinator to agent
  kReservePort = 64,
  kSpawn = 65,
  kRankCommand = 66,
  kSignalRanks = 67,
  kKillGuards = 68,
  kCloseChannel = 69,
  kCredit = 70,
  kAgentStoreValue = 71,
  kWelcome = 72,
  kRefused = 73,
  kInspect = 74,
  kListenForLink = 75,
  kMeasureLink = 76,
  kPushFiles = 77,
  kFilePart = 78,
  kFileHash = 79,
  kLeftOut = 80,
  // to a command on another host (launch/remote_command.h)
  kRemoteCommand = 81,
  // both ways
  kPart = 96,  ///< the start of a payload that is too long for one frame (launch/frame_link.h)
  kBeat = 97,
  kJobEnded = 98,
  // another command to the launcher of a run (launch/job_messages.h)
  kAskStatus = 112,
  kAskStop = 113,
  kAskConsole = 114,
  // and its answers
  kJobStatus = 120,
  kJobStopping = 121,
  kJobRefusal = 122,
  kConsoleText = 123,
};

/// One message: a u32 length (little-endian, of what follows), the kind (u8), the payload.
struct Frame {
  MessageKind kind;
  std::string payload;
};

inline constexpr std::size_t kMaxFrameBytes = 16u << 20;

/// The bytes of a frame. Throws Error(kInternal) if the payload is too long for a frame.
std::string encode_frame(MessageKind kind, std::string_view payload);

/// Cuts a stream of bytes, fed in pieces of any size, into frames. Even if the peer claims a larger
/// frame, it holds at most one frame of `max_bytes` and the last piece fed.
class FrameReader {
 public:
  explicit FrameReader(std::size_t max_bytes = kMaxFrameBytes) : max_bytes_(max_bytes) {}

  void set_max_bytes(std::size_t max_bytes) { max_bytes_ = max_bytes; }
  void feed(std::string_view bytes);
  /// The next whole frame, or nullopt if more must be fed first. Throws Error(kPeer) if the stream
  /// is not one of frames (length 0 or above the limit, unknown kind); the reader cannot be used
  /// after that.
  std::optional<Frame> next();

 private:
  std::size_t max_bytes_;
  std::size_t start_ = 0;  // of the first frame not yet taken, in buffer_
  std::string buffer_;
};

}  // namespace hgt
