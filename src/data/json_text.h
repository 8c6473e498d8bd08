#pragma once

#include <string>
#include <string_view>

namespace hgt {

/// The text in field `field` of a line that holds a JSON object, of which nothing else is kept.
/// Error(kData), without the place, says what is wrong with the line.
std::string text_of_line(std::string_view line, const std::string& field);

}  // namespace hgt
