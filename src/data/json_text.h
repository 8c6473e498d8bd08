#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "hgtrain/base/error.h"

namespace hgt {

/// The text in field `field` of a line that holds a JSON object, or an Error(kData) that says what
/// is wrong with the line, without its place. The error is not thrown, because millions of lines
/// may be bad.
std::variant<std::string, Error> text_of_line(std::string_view line, const std::string& field);

}  // namespace hgt
