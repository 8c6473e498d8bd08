#include "normalizer.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utf8proc.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

#include "pattern.h"
#include "unicode.h"

namespace hgt {

namespace {

struct Range {
  char32_t first, last;
};

// Found by giving every character of Unicode 18 with a decomposition or a combining class to
// tokenizers 0.23.
constexpr auto kInert = std::to_array<Range>(
    {{0x558, 0x558},     {0x58B, 0x58C},     {0x5C8, 0x5C9},     {0x7FD, 0x7FD},
     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1AF0},
     {0x1DF6, 0x1DFA},   {0x209D, 0x209F},   {0x32FF, 0x32FF},   {0xA7F1, 0xA7F4},
     {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x105C9, 0x105C9}, {0x105D2, 0x105D2},
     {0x105DA, 0x105DA}, {0x105E4, 0x105E4}, {0x10781, 0x10785}, {0x10787, 0x107B0},
     {0x107B2, 0x107BF}, {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
     {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
     {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11385},
     {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x11391}, {0x113C2, 0x113C2},
     {0x113C5, 0x113C5}, {0x113C7, 0x113C8}, {0x113CE, 0x113D0}, {0x1145E, 0x1145E},
     {0x11839, 0x1183A}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
     {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
     {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
     {0x11F41, 0x11F42}, {0x1611E, 0x1611E}, {0x16121, 0x16129}, {0x1612F, 0x1612F},
     {0x16D63, 0x16D63}, {0x16D67, 0x16D6A}, {0x16FF0, 0x16FF1}, {0x1B123, 0x1B126},
     {0x1CCD6, 0x1CCF9}, {0x1D127, 0x1D128}, {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C},
     {0x1D25F, 0x1D25F}, {0x1D280, 0x1D281}, {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1DF95},
     {0x1DFCD, 0x1DFFF}, {0x1E030, 0x1E06D}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
     {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF},
     {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
     {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}});

/// Whether HF's normalizers leave a character alone that newer ones decompose, compose or reorder.
/// Their tables stand at Unicode 9, so these are the characters of later versions (to 18) that have
/// a decomposition or a combining class, and those that compositions with them begin with.
bool is_inert(char32_t code_point) {
  const auto range = std::ranges::lower_bound(kInert, code_point, {}, &Range::last);
  return range != kInert.end() && range->first <= code_point;
}

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
