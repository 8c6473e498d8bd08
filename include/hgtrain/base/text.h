#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// `text` without the blanks and tabs around it.
std::string trimmed(std::string_view text);

/// `text`; if it is longer than `max_bytes`, as many whole characters as fit, and "...".
std::string shortened(const std::string& text, std::size_t max_bytes = 100);

/// "a, b, c"; if there are more than `max_words`, the first of them, then "and 17 more".
std::string listed(const std::vector<std::string>& words, std::size_t max_words = 20);

/// `text` with ASCII's capital letters in lower case.
std::string lower(std::string_view text);

/// The candidate nearest to `word` in edit distance (a transposition counts as one edit), or "" if
/// none is near enough (2, or a third of the word's length) to be what was meant. Ignores case.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The same with the limit `max_distance`.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates,
                    std::size_t max_distance);

}  // namespace hgt
