#pragma once

#include <exception>

#include "hgtrain/base/error.h"

namespace hgt {

/// What the user is told of an exception that nobody expected: an Error as it is; a file that
/// cannot be looked at (kData); memory, a thread, a descriptor or another call that the system
/// refused (kDevice), with the limit to look at; anything else is a bug (kInternal).
Error error_from(const std::exception& exception);

}  // namespace hgt
