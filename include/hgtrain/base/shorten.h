#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hgt {

/// `text`; if it is longer than `max_bytes`, as many whole characters as fit, and "...".
std::string shortened(const std::string& text, std::size_t max_bytes = 100);

/// "a, b, c"; if there are more than `max_words`, the first of them, then "and 17 more".
std::string listed(const std::vector<std::string>& words, std::size_t max_words = 20);

}  // namespace hgt
