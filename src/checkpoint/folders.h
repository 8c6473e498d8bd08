#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hgt {

/// "step_00000100"
std::string step_name(std::int64_t step);

/// The step of a name that step_name makes; -1 for other names.
std::int64_t step_of(std::string_view name);

}  // namespace hgt
