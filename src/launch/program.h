#pragma once

#include <string>

#include "hgtrain/base/error.h"

namespace hgt {

/// What is missing in a script that is executable but whose first line names no interpreter.
std::string first_line_hint(const std::string& path);

/// That `host` lacks `program`, a program_of_environment().
Error missing_environment(const std::string& host, const std::string& program);

}  // namespace hgt
