#pragma once

#include <exception>

#include "hgtrain/base/error.h"

namespace hgt {

/// What the user is told of an exception that nobody expected: an Error as it is; memory or a
/// thread that the system refused (kDevice), with the limits to look at; anything else is a bug
/// (kInternal).
Error error_from(const std::exception& exception);

}  // namespace hgt
