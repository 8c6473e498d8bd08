#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "hgtrain/base/error.h"

namespace hgt {

/// The text in field `field` of a line that holds a JSON object, of which nothing else is kept. Or
/// the Error(kData), without the place, that says what is wrong with the line: it is not thrown,
/// because millions of lines may be bad.
std::variant<std::string, Error> text_of_line(std::string_view line, const std::string& field);

}  // namespace hgt
