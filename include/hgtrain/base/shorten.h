#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hgt {

/// `text`, or if it has more than `most` bytes its first ones, whole characters, and "...".
std::string shortened(const std::string& text, std::size_t most = 100);

/// "a, b, c", or the first `most` words "and 17 more".
std::string listed(const std::vector<std::string>& words, std::size_t most = 20);

}  // namespace hgt
