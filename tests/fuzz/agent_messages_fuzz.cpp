#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hgtrain/base/error.h"
#include "hgtrain/launch/host_facts.h"
#include "hgtrain/launch/remote_command.h"

#include "agent_messages.h"
#include "job_messages.h"
#include "payload.h"

namespace {

/// What is decoded is encoded to the same bytes: a payload has one meaning.
template <class Message>
void decode(std::string_view payload) {
  const auto message = hgt::decode_payload<Message>(payload);
  const std::string again = hgt::encode_payload(message);
  if (again.size() > payload.size()) __builtin_trap();
  if (hgt::encode_payload(hgt::decode_payload<Message>(again)) != again) __builtin_trap();
}

template <class... Messages>
void decode_kind(hgt::MessageKind kind, std::string_view payload) {
  ((Messages::kKind == kind ? decode<Messages>(payload) : void()), ...);
}

}  // namespace

/// The first byte is the kind of the frame, the rest its payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view payload(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto kind = static_cast<hgt::MessageKind>(data[0]);
  try {
    decode_kind<hgt::RemoteCommand, hgt::Beat, hgt::JobEnded, hgt::Join, hgt::SignalReceived,
                hgt::Refused, hgt::LeftOut, hgt::Welcome, hgt::AgentHello, hgt::Inspect,
                hgt::HostFacts, hgt::LinkListening, hgt::LinkMeasured, hgt::ListenForLink,
                hgt::MeasureLink, hgt::PortReserved, hgt::PullPart, hgt::PullHash, hgt::FilesReady,
                hgt::PushFiles, hgt::FilePart, hgt::FileHash, hgt::Spawned, hgt::NotSpawned,
                hgt::RankHeartbeat, hgt::RankEvent, hgt::ChannelBroken, hgt::Ended, hgt::Gone,
                hgt::Output, hgt::Notice, hgt::AgentStoreSet, hgt::AgentStoreGet, hgt::ReservePort,
                hgt::Spawn, hgt::RankCommand, hgt::SignalRanks, hgt::KillGuards, hgt::CloseChannel,
                hgt::Credit, hgt::AgentStoreValue, hgt::AskStatus, hgt::AskStop, hgt::JobStatus,
                hgt::JobStopping, hgt::JobRefusal, hgt::AskConsole, hgt::ConsoleText>(kind,
                                                                                      payload);
    if (kind == hgt::MessageKind::kNotSpawned)
      hgt::error_in(hgt::decode_payload<hgt::NotSpawned>(payload));
  } catch (const hgt::Error&) {
  }
  return 0;
}
