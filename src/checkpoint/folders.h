#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "hgtrain/base/error.h"

namespace hgt {

/// "step_00000100"
std::string step_name(std::int64_t step);

/// The step of a name that step_name makes; -1 for other names.
std::int64_t step_of(std::string_view name);

/// Throws `error`, which says how the checkpoint in `folder` is damaged, with the one before it in
/// the hint.
[[noreturn]] void throw_offering_before(const Error& error, const std::string& folder);

}  // namespace hgt
