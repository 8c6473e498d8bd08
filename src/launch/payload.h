#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "hgtrain/base/error.h"

namespace hgt {

// The fields of a message as bytes, one after another: integers little-endian, a bool as one byte,
// a text with its length before it (u32), a list or map with its count before it (u32). A message
// is a struct with a static function `fields` that ties them; encoder and decoder both follow it.
// Texts may hold any bytes: arguments and environments need not be UTF-8.

inline void put(std::string& out, bool value) {
  out.push_back(value ? 1 : 0);
}

template <std::integral Integer>
void put(std::string& out, Integer value) {
  const auto bits = static_cast<std::make_unsigned_t<Integer>>(value);
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    out.push_back(static_cast<char>(bits >> (8 * i)));
}

inline void put(std::string& out, const std::string& text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

template <class Name>
void put(std::string& out, const std::pair<Name, std::string>& pair) {
  put(out, pair.first);
  put(out, pair.second);
}

template <class Element>
void put(std::string& out, const std::vector<Element>& list) {
  put(out, static_cast<std::uint32_t>(list.size()));
  for (const Element& element : list) put(out, element);
}

inline void put(std::string& out, const std::map<std::string, std::string>& map) {
  put(out, static_cast<std::uint32_t>(map.size()));
  for (const auto& entry : map) put(out, entry);
}

// take() removes a field from the front of `rest`; Error(kPeer) if it is not there.

[[noreturn]] inline void refuse_payload() {
  throw Error(ErrorKind::kPeer, "a message between the launcher and an agent is damaged");
}

template <std::integral Integer>
void take(std::string_view& rest, Integer& value) {
  if (rest.size() < sizeof(Integer)) refuse_payload();
  std::make_unsigned_t<Integer> bits = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    bits = static_cast<decltype(bits)>(
        bits | static_cast<decltype(bits)>(static_cast<std::uint8_t>(rest[i])) << (8 * i));
  value = static_cast<Integer>(bits);
  rest.remove_prefix(sizeof(Integer));
}

inline void take(std::string_view& rest, bool& value) {
  std::uint8_t byte = 0;
  take(rest, byte);
  if (byte > 1) refuse_payload();
  value = byte == 1;
}

inline void take(std::string_view& rest, std::string& text) {
  std::uint32_t length = 0;
  take(rest, length);
  if (length > rest.size()) refuse_payload();
  text = rest.substr(0, length);
  rest.remove_prefix(length);
}

inline void take(std::string_view& rest, std::pair<std::string, std::string>& pair) {
  take(rest, pair.first);
  take(rest, pair.second);
}

template <class Element>
void take(std::string_view& rest, std::vector<Element>& list) {
  std::uint32_t count = 0;
  take(rest, count);
  for (list.clear(); count > 0; --count) take(rest, list.emplace_back());
}

inline void take(std::string_view& rest, std::map<std::string, std::string>& map) {
  std::uint32_t count = 0;
  take(rest, count);
  for (map.clear(); count > 0; --count) {
    std::string name;
    take(rest, name);
    take(rest, map[name]);
  }
}

template <class Message>
std::string encode_payload(const Message& message) {
  std::string out;
  std::apply([&](const auto&... field) { (put(out, field), ...); }, Message::fields(message));
  return out;
}

/// Error(kPeer) if `payload` does not hold exactly the fields of a Message.
template <class Message>
Message decode_payload(std::string_view payload) {
  Message message;
  std::apply([&](auto&... field) { (take(payload, field), ...); }, Message::fields(message));
  if (!payload.empty()) refuse_payload();
  return message;
}

}  // namespace hgt
