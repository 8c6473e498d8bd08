#pragma once

#include <exception>

#include "hgtrain/base/error.h"

namespace hgt {

/// What the user is told of an exception that nobody expected: an Error as it is; a file that
/// cannot be looked at (kData); memory, a thread, a descriptor or another call that the system
/// refused (kDevice), with the limit to look at; anything else is a bug (kInternal).
Error error_from(const std::exception& exception);

/// From here on a std::bad_alloc that nothing catches, be it because the memory for its message is
/// missing, ends the process with one line on stderr and kDevice's exit code instead of SIGABRT.
void report_uncaught_bad_alloc();

}  // namespace hgt
