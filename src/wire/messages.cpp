#include "hgtrain/wire/messages.h"

#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/json.h"

namespace hgt {
namespace {

constexpr std::size_t kMaxPhaseBytes = 64;

template <class Integer>
void append(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    out.push_back(static_cast<char>(value >> (8 * i)));
}

[[noreturn]] void refuse(const char* what) {
  throw Error(ErrorKind::kPeer, fmt::format("a part of a message is missing or wrong: {}", what));
}

/// Takes a little-endian integer off the front of `payload`.
template <class Integer>
Integer take(std::string_view& payload, const char* what) {
  if (payload.size() < sizeof(Integer)) refuse(what);
  Integer value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    value |= Integer{static_cast<std::uint8_t>(payload[i])} << (8 * i);
  payload.remove_prefix(sizeof(Integer));
  return value;
}

nlohmann::json parse_object(std::string_view payload, const char* what) {
  nlohmann::json json = try_parse_json<nlohmann::json>(payload);
  if (!json.is_object()) refuse(what);
  return json;
}

std::int64_t integer_at(const nlohmann::json& json, const char* name, std::int64_t min,
                        std::int64_t max) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_number_integer()) refuse(name);
  if (it->is_number_unsigned() &&
      it->get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    refuse(name);
  const auto value = it->get<std::int64_t>();
  if (value < min || value > max) refuse(name);
  return value;
}

std::string string_at(const nlohmann::json& json, const char* name) {
  const auto it = json.find(name);
  if (it == json.end() || !it->is_string()) refuse(name);
  return it->get<std::string>();
}

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

/// Text from anywhere (an error message with a file name in it, say) need not be UTF-8.
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string encode(const Hello& message) {
  return encode_frame(MessageKind::kHello, dump({{"rank", message.rank},
                                                 {"pid", message.pid},
                                                 {"version", message.version},
                                                 {"key", message.key.hex()}}));
}

std::string encode(const StoreSet& message) {
  std::string payload;
  append(payload, static_cast<std::uint32_t>(message.key.size()));
  return encode_frame(MessageKind::kStoreSet, payload + message.key + message.value);
}

std::string encode(const StoreGet& message) {
  std::string payload;
  append(payload, message.id);
  return encode_frame(MessageKind::kStoreGet, payload + message.key);
}

std::string encode(const StoreValue& message) {
  std::string payload;
  append(payload, message.id);
  return encode_frame(MessageKind::kStoreValue, payload + message.value);
}

std::string encode(const Heartbeat& message) {
  return encode_frame(MessageKind::kHeartbeat,
                      dump({{"step", message.step},
                            {"collective", message.collective},
                            {"phase", message.phase.substr(0, kMaxPhaseBytes)},
                            {"work", message.work},
                            {"action", message.action.substr(0, kMaxPhaseBytes)},
                            {"waits_in", message.waits_in.substr(0, kMaxPhaseBytes)},
                            {"waits_for", message.waits_for},
                            {"begun", message.begun}}));
}

std::string encode_event(std::string_view kind, const nlohmann::json& body) {
  return encode_frame(MessageKind::kEvent, dump({{"kind", kind}, {"body", body}}));
}

std::string encode_abort(std::string_view reason) {
  return encode_frame(MessageKind::kAbort, reason);
}

nlohmann::json failed_body(const Error& error) {
  return {{"kind", error.exit_code()},
          {"message", error.message()},
          {"hint", error.hint()},
          {"context", error.context()}};
}

Error error_in(const nlohmann::json& body) {
  const auto kind = integer_at(body, "kind", static_cast<int>(ErrorKind::kInternal),
                               static_cast<int>(ErrorKind::kPeer));
  Error error(static_cast<ErrorKind>(kind), string_at(body, "message"), string_at(body, "hint"));
  const auto context = body.find("context");
  if (context == body.end() || !context->is_array()) refuse("context");
  for (const nlohmann::json& where : *context) {
    if (!where.is_string()) refuse("context");
    error.in(where.get<std::string>());
  }
  return error;
}

Hello decode_hello(std::string_view payload) {
  const nlohmann::json json = parse_object(payload, "hello");
  Hello message;
  message.rank = static_cast<int>(integer_at(json, "rank", 0, kInt32Max));
  message.pid = integer_at(json, "pid", 0, kInt64Max);
  message.version = static_cast<int>(integer_at(json, "version", 0, kInt32Max));
  message.key = JobKey::parse(string_at(json, "key"));
  return message;
}

StoreSet decode_store_set(std::string_view payload) {
  const auto length = take<std::uint32_t>(payload, "store_set");
  if (length > payload.size()) refuse("store_set: the key's length");
  return {std::string(payload.substr(0, length)), std::string(payload.substr(length))};
}

StoreGet decode_store_get(std::string_view payload) {
  const auto id = take<std::uint64_t>(payload, "store_get");
  return {id, std::string(payload)};
}

StoreValue decode_store_value(std::string_view payload) {
  const auto id = take<std::uint64_t>(payload, "store_value");
  return {id, std::string(payload)};
}

Heartbeat decode_heartbeat(std::string_view payload) {
  const nlohmann::json json = parse_object(payload, "heartbeat");
  Heartbeat message;
  message.step = integer_at(json, "step", 0, kInt64Max);
  message.collective = static_cast<std::uint64_t>(integer_at(json, "collective", 0, kInt64Max));
  message.phase = string_at(json, "phase").substr(0, kMaxPhaseBytes);
  message.work = static_cast<std::uint64_t>(integer_at(json, "work", 0, kInt64Max));
  message.action = string_at(json, "action").substr(0, kMaxPhaseBytes);
  message.waits_in = string_at(json, "waits_in").substr(0, kMaxPhaseBytes);
  message.waits_for = static_cast<std::uint64_t>(integer_at(json, "waits_for", 0, kInt64Max));
  message.begun = integer_at(json, "begun", 0, kInt64Max);
  return message;
}

std::string decode_event(std::string_view payload, nlohmann::json& body) {
  nlohmann::json json = parse_object(payload, "event");
  std::string kind = string_at(json, "kind");
  if (!json["body"].is_object()) refuse("event: the body");
  body = std::move(json["body"]);
  return kind;
}

}  // namespace hgt
