#pragma once

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/config/load.h"

namespace hgt {

/// A text as a loaded config.
inline LoadResult loaded(const std::string& text, std::optional<std::int64_t> world = 1,
                         std::vector<std::string> overrides = {}) {
  return load_config_text(text, "f.json", {std::move(overrides), world});
}

/// The messages of one severity, each with its hint, a line each.
inline std::string problem_text(const LoadResult& result, Severity severity) {
  std::string out;
  for (const Problem& p : result.problems)
    if (p.severity == severity) out += p.message + " | " + p.hint + "\n";
  return out;
}

inline std::string errors(const std::string& text) {
  return problem_text(loaded(text), Severity::kError);
}

/// JSON text of a key's value, "" if it is not there.
inline std::string value(const LoadResult& result, const std::string& path) {
  for (const KeyReport& key : result.keys)
    if (key.path == path) return key.value;
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace hgt
