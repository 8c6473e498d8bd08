#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/wire/frame.h"
#include "hgtrain/wire/job_key.h"

namespace hgt {

// What the payloads of frames hold. encode() gives a whole frame; decode_*() throws Error(kPeer)
// for a payload that is not of that form.

inline constexpr int kProtocolVersion = 1;

/// The first frame of a worker: who it is, and that it belongs to this job. JSON.
struct Hello {
  int rank = 0;
  std::int64_t pid = 0;
  int version = kProtocolVersion;
  JobKey key;
};

/// u32 length of the key (little-endian), key, value.
struct StoreSet {
  std::string key;
  std::string value;
};

/// u64 id (little-endian, chosen by the worker), key. The answer, sent once the key is there, is a
/// StoreValue with the same id.
struct StoreGet {
  std::uint64_t id = 0;
  std::string key;
};

/// u64 id, value.
struct StoreValue {
  std::uint64_t id = 0;
  std::string value;
};

/// What a rank was doing a moment ago: see Progress. JSON; texts are cut to 64 bytes.
struct Heartbeat {
  std::int64_t step = 0;
  std::uint64_t collective = 0;
  std::string phase;
  std::uint64_t work = 0;
  std::string action = {};
  std::string waits_in = {};  ///< "": it does not wait
  std::uint64_t waits_for = 0;
  std::int64_t begun = 0;
};

std::string encode(const Hello& message);
std::string encode(const StoreSet& message);
std::string encode(const StoreGet& message);
std::string encode(const StoreValue& message);
std::string encode(const Heartbeat& message);
/// JSON: {"kind": ..., "body": {...}}.
std::string encode_event(std::string_view kind, const nlohmann::json& body);
/// The body of a `failed` event: {"kind": 1-6 (its exit status), "message", "hint", "context"}.
nlohmann::json failed_body(const Error& error);
/// The reverse of failed_body(). Throws Error(kPeer) if `body` does not have that form.
Error error_in(const nlohmann::json& body);
/// The payload is the reason as text.
std::string encode_abort(std::string_view reason);

Hello decode_hello(std::string_view payload);
StoreSet decode_store_set(std::string_view payload);
StoreGet decode_store_get(std::string_view payload);
StoreValue decode_store_value(std::string_view payload);
Heartbeat decode_heartbeat(std::string_view payload);
/// Returns the kind and fills `body`, always an object.
std::string decode_event(std::string_view payload, nlohmann::json& body);

}  // namespace hgt
