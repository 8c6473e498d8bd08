#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// `text` with ASCII's capital letters in lower case.
std::string lower(std::string_view text);

/// The candidate nearest to `word` in edit distance (a transposition counts as one edit), or "" if
/// none is near enough (2, or a third of the word's length) to be what was meant. Ignores case.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The same with the limit `max_distance`.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates,
                    std::size_t max_distance);

}  // namespace hgt
