#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "regex.h"

namespace hgt {

/// Finds every match in a text of valid UTF-8, each after the one before.
using Pattern = std::function<std::vector<Match>(std::string_view)>;

/// {"String": "..."} or {"Regex": "..."} of a tokenizer.json.
Pattern parse_pattern(const nlohmann::json& json);

/// All matches of a regex. After an empty match, the search continues one character further.
std::vector<Match> find_all(const Regex& regex, std::string_view text);

}  // namespace hgt
