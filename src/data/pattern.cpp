#include "pattern.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "unicode.h"

namespace hgt {

std::vector<Match> find_all(const Regex& regex, std::string_view text) {
  std::vector<Match> matches;
  std::size_t from = 0;
  while (const auto match = regex.find(text, from)) {
    const bool empty = match->begin == match->end;
    from = match->end;
    // An empty match at the end of the match before it does not count.
    if (!empty || matches.empty() || matches.back().end != match->end) matches.push_back(*match);
    if (!empty) continue;
    if (from == text.size()) break;
    next_code_point(text, from);
  }
  return matches;
}

Pattern parse_pattern(const nlohmann::json& json) {
  if (json.contains("Regex")) {
    const auto regex = std::make_shared<Regex>(json.at("Regex").get<std::string>());
    return [regex](std::string_view text) { return find_all(*regex, text); };
  }
  return [literal = json.at("String").get<std::string>()](std::string_view text) {
    std::vector<Match> matches;
    if (literal.empty()) return matches;
    for (std::size_t at = 0; (at = text.find(literal, at)) != text.npos; at += literal.size())
      matches.push_back({at, at + literal.size()});
    return matches;
  };
}

}  // namespace hgt
