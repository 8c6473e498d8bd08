#pragma once

#include <string>

#include "hgtrain/base/error.h"

namespace hgt {

/// Throws `error`, which says how the checkpoint in `folder` is damaged, with the one before it in
/// the hint.
[[noreturn]] void throw_offering_before(const Error& error, const std::string& folder);

}  // namespace hgt
