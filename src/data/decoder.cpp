#include "decoder.h"

#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"

#include "byte_alphabet.h"
#include "pattern.h"

namespace hgt {

namespace {

std::string from_alphabet(const std::string& token) {
  return bytes_of(token).value_or(token);
}

/// "<0x0A>" as its byte.
std::string from_fallback(const std::string& token) {
  unsigned byte = 0;
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return token;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return token;
  return {static_cast<char>(byte)};
}

std::string replaced(std::string_view text, const std::string& from, const std::string& to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size()) {
    out += text.substr(at, found - at);
    out += to;
  }
  return out += text.substr(at);
}

void add_step(Decoder& decoder, const nlohmann::json& step) {
  const auto type = step.at("type").get<std::string>();
  if (type == "Fuse") return;
  if (type == "Strip") {
    if (json_integer(step.at("stop")) != 0)
      throw Error(ErrorKind::kData, "a decoder that strips the end is not supported");
    decoder.strip = step.at("content").get<std::string>();
    decoder.strip_count = static_cast<std::size_t>(json_integer(step.at("start")));
    return;
  }
  const auto before = decoder.bytes_of_token;
  if (type == "ByteFallback") {
    decoder.bytes_of_token = [before](const std::string& token) {
      return from_fallback(before(token));
    };
  } else if (type == "Replace" && step.at("pattern").contains("String")) {
    const auto from = step.at("pattern").at("String").get<std::string>();
    const auto to = step.at("content").get<std::string>();
    if (!from.empty())
      decoder.bytes_of_token = [=](const std::string& token) {
        return replaced(before(token), from, to);
      };
  } else {
    throw Error(ErrorKind::kData, fmt::format("the decoder {} is not supported", type),
                "hgtrain knows ByteLevel and sequences of Replace, ByteFallback, Fuse and Strip");
  }
}

}  // namespace

Decoder parse_decoder(const nlohmann::json& json, bool byte_level) {
  const auto as_it_is = [](const std::string& token) { return token; };
  if (json.is_null()) {
    if (byte_level) return {from_alphabet, "", 0};
    return {as_it_is, "", 0};
  }
  const auto type = json.at("type").get<std::string>();
  if (type == "ByteLevel") return {from_alphabet, "", 0};
  Decoder decoder{as_it_is, "", 0};
  if (type != "Sequence") {
    add_step(decoder, json);
    return decoder;
  }
  const nlohmann::json& steps = json.at("decoders");
  if (steps.size() == 1 && steps.front().at("type") == "ByteLevel") return {from_alphabet, "", 0};
  for (const nlohmann::json& step : steps) add_step(decoder, step);
  return decoder;
}

}  // namespace hgt
