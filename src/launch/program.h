#pragma once

#include <string>

namespace hgt {

/// What is missing in a script that is executable but whose first line names no interpreter.
std::string first_line_hint(const std::string& path);

}  // namespace hgt
