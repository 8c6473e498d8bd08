#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/messages.h"

namespace {

void decode(const hgt::Frame& frame) {
  nlohmann::json body;
  switch (frame.kind) {
    case hgt::MessageKind::kHello:
      hgt::decode_hello(frame.payload);
      break;
    case hgt::MessageKind::kStoreSet: {
      const hgt::StoreSet set = hgt::decode_store_set(frame.payload);
      if (set.key.size() + set.value.size() + 4 != frame.payload.size()) __builtin_trap();
      break;
    }
    case hgt::MessageKind::kStoreGet:
      hgt::decode_store_get(frame.payload);
      break;
    case hgt::MessageKind::kStoreValue:
      hgt::decode_store_value(frame.payload);
      break;
    case hgt::MessageKind::kHeartbeat:
      if (hgt::decode_heartbeat(frame.payload).phase.size() > 64) __builtin_trap();
      break;
    case hgt::MessageKind::kEvent:
      if (hgt::decode_event(frame.payload, body) == "failed") hgt::error_in(body);
      if (!body.is_object()) __builtin_trap();
      break;
    default:
      break;
  }
}

}  // namespace

/// The first byte says in which pieces the rest arrives. Any stream is frames up to a point; each
/// is a message or an Error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{data[0]} + 1;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  hgt::FrameReader frames(4096);
  try {
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      frames.feed(stream.substr(at, piece));
      while (const auto frame = frames.next()) {
        try {
          decode(*frame);
        } catch (const hgt::Error&) {
        }
      }
    }
  } catch (const hgt::Error&) {
  }
  return 0;
}
