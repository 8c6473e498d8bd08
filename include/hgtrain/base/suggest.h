#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hgt {

/// The candidate nearest to `word` in edit distance (transpositions count one), or "" where none is
/// near enough (2, or a third of the word's length) to be what was meant. Case does not count.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The same with a limit of one's own.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates,
                    std::size_t max_distance);

}  // namespace hgt
