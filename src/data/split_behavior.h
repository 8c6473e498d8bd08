#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "regex.h"

namespace hgt {

/// What becomes of the matches of a split pattern, by the names of tokenizer.json.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Error(kData) names an unknown one.
SplitBehavior parse_split_behavior(const std::string& name);

/// Appends the pieces of `text`, split at `matches` (if `invert`, at what lies between them).
void split_at(std::string_view text, const std::vector<Match>& matches, SplitBehavior behavior,
              bool invert, std::vector<std::string_view>& pieces);

}  // namespace hgt
