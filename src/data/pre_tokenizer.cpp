#include "pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"

#include "pattern.h"
#include "regex.h"

namespace hgt {

namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool is_known(std::string_view pattern) {
  constexpr std::array kKnown = {kGpt2, kLlama3, kQwen2, kGpt4o};
  return std::ranges::find(kKnown, pattern) != kKnown.end();
}

/// What becomes of the matches of a split pattern, by the names of tokenizer.json.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Error(kData) names an unknown one.
SplitBehavior parse_split_behavior(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  throw Error(ErrorKind::kData, fmt::format("the split behavior {} is not known", name));
}

struct Span {
  std::size_t begin, end;
  bool is_match;
};

/// The matches and the texts between them: all of the text, in order.
std::vector<Span> spans_of(std::string_view text, const std::vector<Match>& matches, bool invert) {
  std::vector<Span> spans;
  std::size_t at = 0;
  for (const Match& match : matches) {
    if (at < match.begin) spans.push_back({at, match.begin, invert});
    if (match.begin < match.end) spans.push_back({match.begin, match.end, !invert});
    at = match.end;
  }
  if (at < text.size()) spans.push_back({at, text.size(), invert});
  return spans;
}

/// Whether `span` belongs to the piece of `before`, its neighbour to the left.
bool joins(const Span& before, const Span& span, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kMergedWithPrevious:
      return span.is_match && !before.is_match;
    case SplitBehavior::kMergedWithNext:
      return before.is_match && !span.is_match;
    case SplitBehavior::kContiguous:
      return span.is_match == before.is_match;
    case SplitBehavior::kIsolated:
    case SplitBehavior::kRemoved:
      return false;
  }
  return false;
}

/// Appends the pieces of `text`, split at `matches` (if `invert`, at what lies between them).
void split_at(std::string_view text, const std::vector<Match>& matches, SplitBehavior behavior,
              bool invert, std::vector<std::string_view>& pieces) {
  const std::vector<Span> spans = spans_of(text, matches, invert);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (span.is_match && behavior == SplitBehavior::kRemoved) continue;
    const std::string_view piece = text.substr(span.begin, span.end - span.begin);
    if (i > 0 && joins(spans[i - 1], span, behavior))
      pieces.back() = {pieces.back().data(), pieces.back().size() + piece.size()};
    else
      pieces.push_back(piece);
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const nlohmann::json& json) {
  if (!json.is_null()) add(json);
}

void PreTokenizer::add(const nlohmann::json& json) {
  const auto type = json.at("type").get<std::string>();
  if (byte_level_)
    throw Error(ErrorKind::kData,
                fmt::format("the pre-tokenizer {} after ByteLevel is not supported", type),
                "use a tokenizer whose last pre-tokenizer is ByteLevel, as those of GPT-2, Llama 3 "
                "and Qwen have");
  if (type == "Sequence") {
    for (const nlohmann::json& step : json.at("pretokenizers")) add(step);
  } else if (type == "ByteLevel") {
    add_byte_level(json);
  } else if (type == "Split") {
    add_split(json);
  } else if (type == "Digits") {
    // This only separates digits from letters and line ends, so cuts_at_white_space() still holds.
    const bool before = has_split_;
    add_split({{"pattern", {{"Regex", "\\p{N}"}}},
               {"behavior", json.at("individual_digits").get<bool>() ? "Isolated" : "Contiguous"},
               {"invert", false}});
    has_split_ = before;
  } else {
    throw Error(ErrorKind::kData, fmt::format("the pre-tokenizer {} is not supported", type),
                "hgtrain knows ByteLevel, Split, Digits and Sequence");
  }
}

void PreTokenizer::add_byte_level(const nlohmann::json& json) {
  byte_level_ = true;
  if (json.at("add_prefix_space").get<bool>()) {
    has_split_ = true;
    steps_.push_back([](std::string_view text, Pieces& pieces) {
      const bool has_space = text.starts_with(' ');
      pieces.views.emplace_back(has_space ? text
                                          : pieces.owned.emplace_back(" " + std::string(text)));
    });
  }
  if (json.value("use_regex", true))
    add_split({{"pattern", {{"Regex", kGpt2}}}, {"behavior", "Isolated"}, {"invert", false}});
}

void PreTokenizer::add_split(const nlohmann::json& json) {
  const nlohmann::json& pattern = json.at("pattern");
  const auto behavior = parse_split_behavior(json.at("behavior").get<std::string>());
  const bool invert = json.at("invert").get<bool>();
  // All text is matched, so these two leave every match as it is.
  const bool keeps_matches =
      invert ? behavior == SplitBehavior::kRemoved || behavior == SplitBehavior::kIsolated
             : behavior == SplitBehavior::kIsolated;
  if (!has_split_)
    cuts_at_white_space_ = keeps_matches && pattern.contains("Regex") &&
                           is_known(pattern.at("Regex").get<std::string>());
  has_split_ = true;
  steps_.push_back(
      [find = parse_pattern(pattern), behavior, invert](std::string_view text, Pieces& pieces) {
        split_at(text, find(text), behavior, invert, pieces.views);
      });
}

Pieces PreTokenizer::split(std::string_view text) const {
  Pieces pieces;
  pieces.views.push_back(text);
  for (const Step& step : steps_) {
    const std::vector<std::string_view> before = std::move(pieces.views);
    pieces.views.clear();
    for (const std::string_view piece : before) step(piece, pieces);
  }
  return pieces;
}

}  // namespace hgt
