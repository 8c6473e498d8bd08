#include "split_behavior.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/error.h"

namespace hgt {

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

namespace {

struct Span {
  std::size_t begin, end;
  bool is_match;
};

/// Matches and what lies between them: all of the text, in order.
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

}  // namespace

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

}  // namespace hgt
