#include "normalizer.h"

#include <algorithm>
#include <memory>
#include <utf8proc.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

#include "inert_characters.h"
#include "pattern.h"
#include "unicode.h"

namespace hgt {

namespace {

std::string unicode_form(std::string_view text, int options) {
  if (text.empty()) return {};
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  if (bytes < 0)
    throw Error(ErrorKind::kData, fmt::format("normalization fails: {}", utf8proc_errmsg(bytes)));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&free)> owner(out, free);
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(bytes)};
}

/// No other character can combine with, or move past, a character that HF's normalizers do not
/// know, so the text before it and the text after it are normalized separately.
std::string unicode_form_around_inert(std::string_view text, int options) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is_inert(next_code_point(text, at))) continue;
    out += unicode_form(text.substr(done, begin - done), options);
    out += text.substr(begin, at - begin);
    done = at;
  }
  return out += unicode_form(text.substr(done), options);
}

Normalizer unicode_normalizer(int options) {
  return [options](std::string_view text) {
    const bool ascii = std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
    return ascii ? std::string(text) : unicode_form_around_inert(text, options);
  };
}

Normalizer replacement(const nlohmann::json& json) {
  const auto content = json.at("content").get<std::string>();
  return [find_all = parse_pattern(json.at("pattern")), content](std::string_view in) {
    std::string out;
    std::size_t at = 0;
    for (const Match& match : find_all(in)) {
      out += in.substr(at, match.begin - at);
      out += content;
      at = match.end;
    }
    return out += in.substr(at);
  };
}

}  // namespace

Normalizer parse_normalizer(const nlohmann::json& json) {
  if (json.is_null()) return {};
  const auto type = json.at("type").get<std::string>();
  if (type == "NFC") return unicode_normalizer(UTF8PROC_COMPOSE);
  if (type == "NFD") return unicode_normalizer(UTF8PROC_DECOMPOSE);
  if (type == "NFKC") return unicode_normalizer(UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (type == "NFKD") return unicode_normalizer(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  if (type == "Replace") return replacement(json);
  if (type == "Prepend")
    return [prefix = json.at("prepend").get<std::string>()](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    };
  if (type == "Sequence") {
    std::vector<Normalizer> steps;
    for (const nlohmann::json& step : json.at("normalizers"))
      steps.push_back(parse_normalizer(step));
    return [steps](std::string_view text) {
      std::string out(text);
      for (const Normalizer& step : steps) out = step(out);
      return out;
    };
  }
  throw Error(ErrorKind::kData, fmt::format("the normalizer {} is not supported", type),
              "hgtrain knows NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence");
}

bool normalizer_is_local(const nlohmann::json& json) {
  if (json.is_null()) return true;
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") return std::ranges::all_of(json.at("normalizers"), normalizer_is_local);
  return type == "NFC";
}

}  // namespace hgt
